package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// testLimit bounds the tests of one package, in the form of go test.
const testLimit = "2m"

// detector looks for a planted fault; overlay "" is the tree as it is.
type detector struct {
	root, dir string // of the tree, and for what is built
	harness   string // the program of chaos runs, built without mutants; "": not yet
	baselines map[string]error
}

// look looks for the mutant as its plan says, and returns what has found it: a test, a rule or a
// guarantee; "": nothing has.
func (d *detector) look(ctx context.Context, m *mutant, k kind, overlay string) (by string, err error) {
	switch k {
	case unit:
		return d.unit(ctx, m.how[k].args, overlay)
	case sim:
		return d.sim(ctx, m.how[k].args, overlay)
	default:
		return d.chaos(ctx, m, overlay)
	}
}

// run runs a command in the tree and returns its output, until ctx ends; it has a group of its own
// then, so that what it started ends too.
func (d *detector) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = d.root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}

// goTest is the beginning of a test run with a mutant.
func goTest(overlay string, more ...string) []string {
	return append([]string{"go", "test", "-overlay", overlay, "-tags", "invariants", "-vet=off", "-json", "-count=1", "-failfast", "-timeout", testLimit}, more...)
}

// unit runs the tests of packages, one after another, until one finds the mutant. Each argument
// is a package, or a package, a colon and a pattern for its tests.
func (d *detector) unit(ctx context.Context, packages []string, overlay string) (by string, err error) {
	for _, p := range packages {
		path, pattern, some := strings.Cut(p, ":")
		args := goTest(overlay)
		if some {
			args = append(args, "-run", pattern)
		}
		out, err := d.run(ctx, append(args, path)...)
		if err == nil {
			continue
		}
		text, name, errBuild := failures(out)
		if errBuild != nil || name == "" {
			return "", errors.Join(fmt.Errorf("tests of %s: %w: %s", path, err, tail(text)), errBuild, ctx.Err())
		}
		return "`" + strings.TrimPrefix(path, "./") + "." + name + "`", nil
	}
	return "", nil
}

// sim runs seeds of the simulation.
func (d *detector) sim(ctx context.Context, args []string, overlay string) (by string, err error) {
	out, err := d.run(ctx, append(append(goTest(overlay, "-run", "TestSeeds$"), args[0], "-args"), args[1:]...)...)
	if err == nil {
		return "", nil
	}
	text, _, errBuild := failures(out)
	if errBuild != nil || ctx.Err() != nil {
		return "", errors.Join(fmt.Errorf("simulation: %w", err), errBuild, ctx.Err())
	}
	if v := regexp.MustCompile(`seed (\d+): ([^:\n]+):`).FindStringSubmatch(text); v != nil {
		return fmt.Sprintf("%s (seed %s)", v[2], v[1]), nil
	}
	if strings.Contains(text, "panic: ") {
		return "an invariant of the machine", nil
	}
	return "", fmt.Errorf("simulation: %w: %s", err, tail(text))
}

// tail returns the end of a text.
func tail(text string) string { return text[max(0, len(text)-500):] }

// failures returns the printed text and the first test that failed, or ran when time was over. An error says that the
// mutant does not build.
func failures(out []byte) (text, name string, err error) {
	var all strings.Builder
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		all.WriteString(e.Output)
		switch {
		case e.Action == "build-fail":
			return "", "", fmt.Errorf("it does not build: %s", all.String())
		case e.Action == "fail" && e.Test != "" && name == "":
			name, _, _ = strings.Cut(e.Test, "/")
		}
	}
	if late := regexp.MustCompile(`running tests:\s+(\w+)`).FindStringSubmatch(all.String()); name == "" && late != nil {
		name = late[1]
	}
	return all.String(), name, nil
}

// build builds a program of the tree.
func (d *detector) build(ctx context.Context, pkg, to, overlay string) error {
	args := []string{"env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-o", to}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if out, err := d.run(ctx, append(args, pkg)...); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, out)
	}
	return nil
}

// clean removes what a run has left, as far as it can.
func clean(dir string) { _ = os.RemoveAll(dir) }
