// Command retest runs make targets that are tests and, when few of them failed and
// nothing worse happened, runs each of those once more by itself:
//
//	retest -name test -dir dist/ci test-main cases
//
// A test that passes alone is told as flaky, loudly, and what its first run printed
// is kept in DIR. One that fails again has failed. Nothing is repeated after more than
// -limit failures, a build that failed, a panic, a data race, a fatal error of the
// runtime or a package that took too long: those are never chance alone.
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

// main ends with 2 if it was called wrongly or could not run, and with 1 if tests failed for good.
func main() {
	name := flag.String("name", "test", "names the files in -dir")
	dir := flag.String("dir", "dist/ci", "where logs and figures go")
	limit := flag.Int("limit", 3, "tests that may have failed for them to be run again; 0: none is")
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

// create makes the file of this name in dir, and dir.
func create(dir, name string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, name))
}
