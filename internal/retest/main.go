// Command retest runs make targets that are tests. If only a few tests failed and nothing worse
// happened, it runs each of those once more by itself:
//
//	retest -name test -dir dist/ci test-main cases
//
// It reports a test that passes alone as flaky, and keeps the output of its first run in DIR. A
// test that fails again has failed. It repeats nothing after more than -limit failures, a failed
// build, a panic, a data race, a fatal runtime error or a package that took too long: those are
// never chance alone.
//
// The targets take TESTFLAGS, and PKG or ALL for their packages. Output of tests that
// pass is left out; DIR/NAME.events.log has all of it. DIR/NAME.result has the figures and a
// line for each test that was skipped, is flaky or failed. Exit status is 1 when
// anything failed.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// main exits with 2 if it was called wrongly or could not run, and with 1 if tests failed for good.
func main() {
	name := flag.String("name", "test", "name of the files in -dir")
	dir := flag.String("dir", "dist/ci", "directory for logs and figures")
	limit := flag.Int("limit", 3, "most failed tests that are run again; 0: none")
	flag.Parse()
	if flag.NArg() == 0 || *limit < 0 {
		fmt.Fprintf(os.Stderr, "retest: %d targets, -limit %d: name a target of the Makefile at least, and a limit of 0 or more\n", flag.NArg(), *limit)
		os.Exit(2)
	}
	s := suite{run: runMake, out: os.Stdout, name: *name, dir: *dir, limit: *limit}
	ok, err := s.Run(flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "retest: %v\n", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// runMake is a runner that starts make. Its error is that of the command.
func runMake(to io.Writer, target string, vars []string) error {
	cmd := exec.Command("make", append([]string{"--no-print-directory", target}, vars...)...) //nolint:noctx // ends with its terminal
	cmd.Stdout, cmd.Stderr = to, to                                                           // one pipe: lines stay in order
	return cmd.Run()
}

// create creates the file with this name in dir, and dir.
func create(dir, name string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, name))
}
