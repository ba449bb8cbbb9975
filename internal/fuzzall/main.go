// Command fuzzall runs every fuzz target of the module in the current directory, one after
// the other, each for a time:
//
//	fuzzall -time 30s -tags hashicorpmetrics
//
// It continues after a failure and names the failed targets at the end. The exit status is then 1.
//
// It runs a target again if an exceeded deadline is the only failure: before Go 1.27, go test
// sometimes reports the end of the fuzz time as a failure (go.dev/issue/75804). A target that found
// something is not run again; its output names the stored input.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"time"
)

// maxRuns bounds the runs of one target.
const maxRuns = 3

// main exits with 1 if a target failed. It runs all targets, even after a failure.
func main() {
	duration := flag.Duration("time", 30*time.Second, "time for each target")
	tags := flag.String("tags", "", "build tags")
	flag.Parse()
	targets, err := find(os.DirFS("."))
	if err == nil && len(targets) == 0 {
		err = errors.New("no fuzz target below this directory: run fuzzall where go.mod is")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "fuzzall: %v\n", err)
		os.Exit(2)
	}
	failed := runAll(os.Stdout, targets, func(to io.Writer, t target) error {
		// Without vet, which `make vet` runs and which takes as long as the fuzzing.
		cmd := exec.Command("go", "test", "-vet=off", "-tags", *tags, "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", duration.String(), t.dir) //nolint:noctx // ends with its terminal
		cmd.Stdout, cmd.Stderr = to, to
		return cmd.Run()
	})
	for _, t := range failed {
		say(os.Stdout, "failed: %s %s", t.dir, t.name)
	}
	say(os.Stdout, "%d fuzz targets, %d failed", len(targets), len(failed))
	if len(failed) > 0 {
		os.Exit(1)
	}
}

// say writes a progress line.
func say(to io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(to, format+"\n", args...) }

// target is one fuzz target. dir begins with "./".
type target struct{ dir, name string }

var declared = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// find returns the targets of all test files of a module, in order. It leaves out modules below it.
func find(module fs.FS) (found []target, err error) {
	err = fs.WalkDir(module, ".", func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if _, err := fs.Stat(module, path.Join(at, "go.mod")); err == nil && at != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(at, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(module, at)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			found = append(found, target{dir: "./" + path.Dir(at), name: string(m[1])})
		}
		return err
	})
	return found, err
}

// runAll runs the targets and returns those that failed.
func runAll(out io.Writer, targets []target, run func(io.Writer, target) error) (failed []target) {
	for _, t := range targets {
		for n := 1; ; n++ {
			say(out, "fuzz %s %s", t.dir, t.name)
			var said bytes.Buffer
			if run(io.MultiWriter(out, &said), t) == nil {
				break
			}
			if n == maxRuns || !timeWasUp(said.String(), t.name) {
				failed = append(failed, t)
				break
			}
			say(out, "the time was up and nothing was found (go.dev/issue/75804): running it again")
		}
	}
	return failed
}

// timeWasUp reports whether an exceeded deadline is the only failure in the output of a target.
func timeWasUp(output, name string) bool {
	begin := regexp.MustCompile(`(?m)^--- FAIL: ` + name + ` \([\d.]+s\)\n`).FindStringIndex(output)
	if begin == nil {
		return false
	}
	said := output[begin[1]:]
	return strings.HasPrefix(said, "    context deadline exceeded\nFAIL\n")
}
