// Command fuzzall runs every fuzz target of the module in the current directory, one after
// the other, each for a time:
//
//	fuzzall -time 30s -tags hashicorpmetrics
//
// It continues after a failure. At the end it shows of each failed target what failed and the inputs that it stored,
// because the log may be all that is left of them. The exit status is then 1.
//
// It runs a target again if an exceeded deadline is the only failure: before Go 1.27, go test
// sometimes reports the end of the fuzz time as a failure (go.dev/issue/75804). A target that found
// something is not run again.
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
	"slices"
	"strings"
	"time"
)

const (
	// maxRuns bounds the runs of one target.
	maxRuns = 3
	// minimize bounds what is tried to make one input smaller. Go's default, a minute, is more than the time of most
	// runs: the first large input would take all of it.
	minimize = "500x"
	// maxLines and maxLineBytes bound what is shown of one failure. An input is a line for each argument.
	maxLines     = 8
	maxLineBytes = 4 << 10
)

// main exits with 1 if a target failed. It runs all targets, even after a failure.
func main() {
	duration := flag.Duration("time", 30*time.Second, "time for each target")
	tags := flag.String("tags", "", "build tags")
	flag.Parse()
	module := os.DirFS(".")
	targets, err := find(module)
	if err == nil && len(targets) == 0 {
		err = errors.New("no fuzz target below this directory: run fuzzall where go.mod is")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "fuzzall: %v\n", err)
		os.Exit(2)
	}
	failed := runAll(os.Stdout, module, targets, func(to io.Writer, t target) error {
		// Without vet, which `make vet` runs and which takes as long as the fuzzing.
		cmd := exec.Command("go", "test", "-vet=off", "-tags", *tags, "-run", "^$", "-fuzz", "^"+t.name+"$", //nolint:noctx // ends with its terminal
			"-fuzztime", duration.String(), "-fuzzminimizetime", minimize, t.dir)
		cmd.Stdout, cmd.Stderr = to, to
		return cmd.Run()
	})
	for _, f := range failed {
		f.show(os.Stdout, module)
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

// stored returns the paths of the inputs that go test stored for a target, in order.
func (t target) stored(module fs.FS) []string {
	paths, _ := fs.Glob(module, path.Join(t.dir, "testdata/fuzz", t.name, "*")) // its only error is about the pattern
	return paths
}

// failure is a target that failed.
type failure struct {
	target
	said   []string // lines
	inputs []string // paths of new ones
}

// show writes what failed, and the inputs as their files have them: who puts them back runs them with the tests.
func (f failure) show(to io.Writer, module fs.FS) {
	say(to, "failed: %s %s", f.dir, f.name)
	showLines(to, f.said)
	for _, at := range f.inputs {
		text, err := fs.ReadFile(module, at)
		if err != nil {
			say(to, "    %v", err)
			continue
		}
		say(to, "    %s:", at)
		showLines(to, lines(string(text)))
	}
}

// showLines writes lines, at most maxLines, and maxLineBytes of each.
func showLines(to io.Writer, lines []string) {
	for _, line := range lines[:min(len(lines), maxLines)] {
		if more := len(line) - maxLineBytes; more > 0 {
			line = fmt.Sprintf("%s (%d bytes more)", line[:maxLineBytes], more)
		}
		say(to, "    %s", line)
	}
	if more := len(lines) - maxLines; more > 0 {
		say(to, "    (%d lines more)", more)
	}
}

// lines returns the lines of a text that are not empty.
func lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
}

// runAll runs the targets and returns those that failed.
func runAll(out io.Writer, module fs.FS, targets []target, run func(io.Writer, target) error) (failed []failure) {
	for _, t := range targets {
		before := t.stored(module)
		for n := 1; ; n++ {
			say(out, "fuzz %s %s", t.dir, t.name)
			var said bytes.Buffer
			if run(io.MultiWriter(out, &said), t) == nil {
				break
			}
			// If the time is up while a failing input is made smaller, go test stores it and says nothing of it.
			inputs := slices.DeleteFunc(t.stored(module), func(at string) bool { return slices.Contains(before, at) })
			if n == maxRuns || len(inputs) > 0 || !timeWasUp(said.String(), t.name) {
				failed = append(failed, failure{target: t, said: fault(said.String(), t.name), inputs: inputs})
				break
			}
			say(out, "the time was up and nothing was found (go.dev/issue/75804): running it again")
		}
	}
	return failed
}

// verdict matches the line with which go test begins to say what failed.
func verdict(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^--- FAIL: ` + name + ` \([\d.]+s\)\n`)
}

// seed matches the line that names a failing input which was there before: of f.Add, or of testdata.
var seed = regexp.MustCompile(`(?m)^failure while testing seed corpus entry: .*\n`)

// fault returns what a failed target reported about its failure, or the last lines of its output.
func fault(output, name string) []string {
	begin := verdict(name).FindStringIndex(output)
	if begin == nil {
		all := lines(output)
		return all[max(0, len(all)-maxLines):]
	}
	said, _, _ := strings.Cut(output[begin[1]:], "\nFAIL\n")
	return lines(seed.FindString(output) + said)
}

// timeWasUp reports whether an exceeded deadline is the only failure in the output of a target.
func timeWasUp(output, name string) bool {
	begin := verdict(name).FindStringIndex(output)
	if begin == nil {
		return false
	}
	return strings.HasPrefix(output[begin[1]:], "    context deadline exceeded\nFAIL\n")
}
