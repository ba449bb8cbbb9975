package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// runner runs a make target with the given variables, writes all of its output, and returns how it
// ended.
type runner func(to io.Writer, target string, vars []string) error

// suite runs targets one after the other; one goroutine uses it.
type suite struct {
	run   runner
	out   io.Writer
	name  string
	dir   string
	limit int // most failed tests that are run again
}

// What is shown of faults again at the end.
const (
	shownFaults = 3
	shownLines  = 8 // of each
)

// result is the outcome of the targets.
type result struct {
	passed       int
	skips, flaky []string
	faults       []fault
}

// Run runs the targets, repeats what may be repeated, writes the figures, and reports whether
// nothing failed. The end of its output is how the first faults ended. An error means that it could not write a file.
func (s *suite) Run(targets []string) (ok bool, err error) {
	log, err := create(s.dir, s.name+".events.log")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()

	var r result
	var failed []failure
	var reasons []string
	for _, target := range targets {
		c := newCollector(target, s.out)
		c.end(s.run(io.MultiWriter(log, c), target, []string{"TESTFLAGS=-json"}))
		r.passed += c.passed
		r.skips = append(r.skips, c.skips...)
		r.faults = append(r.faults, c.broken...)
		failed = append(failed, c.failed...)
		reasons = append(reasons, c.reasons...)
	}
	if len(failed) > s.limit {
		reasons = append(reasons, fmt.Sprintf("%d tests failed, more than %d", len(failed), s.limit))
	}
	if len(failed) > 0 && len(reasons) > 0 {
		s.say("\nno failed test is run again: %s\n", strings.Join(reasons, "; "))
	}
	for _, f := range failed {
		if len(reasons) > 0 || !s.again(log, f) {
			r.faults = append(r.faults, fault{f.String(), f.output})
			continue
		}
		kept, err := s.keep(f)
		if err != nil {
			return false, err
		}
		r.flaky = append(r.flaky, fmt.Sprintf("%s (failed once, passed alone)", f))
		s.say("\n!! flaky: %s (failed once, passed alone); its first output: %s\n", f, kept)
	}
	for _, f := range r.faults[:min(len(r.faults), shownFaults)] {
		s.say("\nfailed: %s\n%s", f.name, strings.Join(f.end(), ""))
	}
	return len(r.faults) == 0, s.write(r)
}

// noise matches lines that say nothing of a failure.
var noise = regexp.MustCompile(`^\s*(=== |--- PASS: |$)`)

// end returns the last lines of what a fault printed.
func (f fault) end() []string {
	said := slices.DeleteFunc(slices.Clone(f.output), noise.MatchString)
	return said[max(0, len(said)-shownLines):]
}

// again runs a failed test once more and reports whether it passed. A test that is skipped now has
// not passed.
func (s *suite) again(log io.Writer, f failure) bool {
	s.say("\n-- again, by itself: %s\n", f)
	c := newCollector(f.target, s.out)
	vars := []string{"TESTFLAGS=-json -count=1 -run=^" + f.test + "$$"} // $$ is $ in make
	if f.pkg != casesPackage {
		vars = append(vars, "PKG="+f.pkg, "ALL="+f.pkg)
	}
	c.end(s.run(io.MultiWriter(log, c), f.target, vars))
	return c.passed > 0 && len(c.failed)+len(c.reasons) == 0
}

// keep writes what a flaky test printed when it failed.
func (s *suite) keep(f failure) (path string, err error) {
	file, err := create(s.dir, fmt.Sprintf("flaky-%s-%s.log", s.name, f))
	if err != nil {
		return "", err
	}
	_, err = io.WriteString(file, strings.Join(f.output, ""))
	return file.Name(), errors.Join(err, file.Close())
}

// write writes the figures, and a line for each test that was skipped, is flaky or failed.
func (s *suite) write(r result) error {
	file, err := create(s.dir, s.name+".result")
	if err != nil {
		return err
	}
	var faults []string
	for _, f := range r.faults {
		faults = append(faults, f.name)
	}
	text := fmt.Sprintf("figures %d %d %d %d\n", r.passed+len(r.flaky), len(r.faults), len(r.skips), len(r.flaky))
	for _, list := range []struct {
		kind  string
		lines []string
	}{{"skipped", r.skips}, {"flaky", r.flaky}, {"failed", faults}} {
		for _, line := range list.lines {
			text += list.kind + " " + line + "\n"
		}
	}
	_, err = io.WriteString(file, text)
	return errors.Join(err, file.Close())
}

func (s *suite) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format, args...) // an error in writing to the screen changes nothing
}
