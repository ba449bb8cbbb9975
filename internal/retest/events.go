package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is one line of `go test -json`; fields as in `go doc test2json`.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	ImportPath  string // of a build
	FailedBuild string // its import path
}

// failure is a test that failed.
type failure struct {
	target string
	pkg    string // import path
	test   string // top level: a subtest is repeated with its test
	output []string
}

func (f failure) String() string { return f.pkg[strings.LastIndexByte(f.pkg, '/')+1:] + "." + f.test }

// fault is what failed for good, with what it printed.
type fault struct {
	name   string
	output []string // lines
}

var (
	// caseLine is what internal/cases/report prints of a numbered case.
	caseLine = regexp.MustCompile(`^(T[0-9]{3}) (ok|skip|FAIL) +[0-9.]+s *(.*)$`)
	// fatal matches lines that exclude a second run, wherever they are in a package's output.
	fatal = regexp.MustCompile(`^(panic: |fatal error: |\s*(\| )?WARNING: DATA RACE)`)
	// fatalInTest matches the same in the output of a failed test, and in that of processes which it
	// started.
	fatalInTest = regexp.MustCompile(`panic: |panicked: |fatal error: |DATA RACE|broken invariant|state is inconsistent`)
	// logged matches what t.Log and t.Skip write.
	logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)
)

// casesPackage has the numbered cases; their target prints no events.
const casesPackage = "internal/cases"

// collector reads the output of one target, in whole lines or parts of them. One goroutine uses it.
type collector struct {
	target string
	show   io.Writer // the report for people

	ran     bool // a test or case ended
	passed  int  // top-level tests only
	failed  []failure
	skips   []string
	broken  []fault  // failures that are not tests: builds, packages
	reasons []string // reasons to repeat nothing

	running map[string]*test    // by package and test, from its first event
	fatals  map[string]string   // first fatal line of a package that still runs
	failing map[string]int      // failed tests of a package that still runs
	outside map[string][]string // newest output outside of tests, by package or build; "": of make
	partial []byte              // the incomplete last line
	inCase  *failure            // the numbered case that the next lines belong to
}

// test is a running test, with its subtests' output.
type test struct {
	output []string
	last   string // the last line that it logged
}

// newCollector returns a collector for one target.
func newCollector(target string, show io.Writer) *collector {
	return &collector{
		target: target, show: show,
		running: map[string]*test{}, fatals: map[string]string{}, failing: map[string]int{}, outside: map[string][]string{},
	}
}

// Write implements io.Writer.
func (c *collector) Write(p []byte) (int, error) {
	c.partial = append(c.partial, p...)
	for {
		line, rest, found := bytes.Cut(c.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		c.line(string(line))
		c.partial = rest
	}
}

// end records how the target ended. A target that failed without naming a failure, or ran nothing,
// has failed itself.
func (c *collector) end(err error) {
	if len(c.partial) > 0 {
		c.line(string(c.partial))
		c.partial = nil
	}
	c.closeCase()
	for _, name := range slices.Sorted(maps.Keys(c.running)) {
		c.broken = append(c.broken, fault{name + " did not end", c.running[name].output})
	}
	switch {
	case len(c.failed)+len(c.broken) > 0:
	case err != nil:
		c.broken = append(c.broken, fault{fmt.Sprintf("make %s: %v", c.target, err), c.outside[""]})
	case !c.ran:
		c.broken = append(c.broken, fault{fmt.Sprintf("make %s: no test ran", c.target), c.outside[""]})
	}
	if len(c.broken) > 0 {
		c.reasons = append(c.reasons, c.broken[0].name)
	}
}

// line reads a line of go test -json. It passes on other lines, such as make's, unchanged.
func (c *collector) line(line string) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		c.text(line)
		return
	}
	switch {
	case e.Test != "":
		c.ofTest(e)
	case e.Action == "build-output":
		c.keep(e.ImportPath, e.Output)
		c.print(e.Output)
	case e.Action == "output":
		c.heed(e)
		c.keep(e.Package, e.Output)
		if e.Output != "PASS\n" && e.Output != "FAIL\n" && !strings.HasSuffix(e.Output, "[no test files]\n") {
			c.print(e.Output)
		}
	case e.Action == "fail" && e.Package != "":
		c.packageFailed(e)
	case e.Action == "pass":
		delete(c.fatals, e.Package) // of a test that wanted it
		delete(c.failing, e.Package)
		delete(c.outside, e.Package)
	}
}

// keep keeps a line of output outside of tests, and no more than are shown.
func (c *collector) keep(of, line string) {
	c.outside[of] = append(c.outside[of], line)
	if kept := c.outside[of]; len(kept) > shownLines {
		c.outside[of] = slices.Clone(kept[1:])
	}
}

// ofTest reads an event of a test or subtest.
func (c *collector) ofTest(e event) {
	top, _, subtest := strings.Cut(e.Test, "/")
	key := e.Package + " " + top
	t := c.running[key]
	if t == nil {
		t = &test{}
		c.running[key] = t
	}
	switch e.Action {
	case "output":
		c.heed(e)
		t.output = append(t.output, e.Output)
		if m := logged.FindStringSubmatch(e.Output); m != nil {
			t.last = m[1]
		}
	case "skip":
		skip := failure{pkg: e.Package, test: e.Test}.String() + ": " + t.last
		c.skips = append(c.skips, skip)
		c.print("skipped: " + skip + "\n")
	}
	if subtest || e.Action != "pass" && e.Action != "fail" && e.Action != "skip" {
		return
	}
	c.ran = true
	delete(c.running, key)
	switch e.Action {
	case "pass":
		c.passed++
	case "fail":
		c.failing[e.Package]++
		for _, line := range t.output {
			c.print(line)
		}
		c.fail(failure{target: c.target, pkg: e.Package, test: top, output: t.output})
	}
}

// heed records the first line of a package that excludes a second run.
func (c *collector) heed(e event) {
	if c.fatals[e.Package] == "" && fatal.MatchString(e.Output) {
		c.fatals[e.Package] = strings.TrimSpace(e.Output)
	}
}

// fail records a failed test. If its output has a line that no second run could excuse, that line
// becomes a reason not to run it again.
func (c *collector) fail(f failure) {
	c.failed = append(c.failed, f)
	for _, line := range f.output {
		if fatalInTest.MatchString(line) {
			c.reasons = append(c.reasons, fmt.Sprintf("%s printed %q", f, strings.TrimSpace(line)))
			return
		}
	}
}

// packageFailed records tests that did not end, and packages that failed without a failed test.
// Neither can be run again by name.
func (c *collector) packageFailed(e event) {
	if line := c.fatals[e.Package]; line != "" {
		c.reasons = append(c.reasons, fmt.Sprintf("%s printed %q", e.Package, line))
	}
	for key, t := range c.running {
		pkg, name, _ := strings.Cut(key, " ")
		if pkg != e.Package {
			continue
		}
		for _, line := range t.output {
			c.print(line)
		}
		c.broken = append(c.broken, fault{failure{pkg: pkg, test: name}.String() + " did not end", t.output})
		delete(c.running, key)
		c.failing[e.Package]++
	}
	switch {
	case e.FailedBuild != "":
		c.broken = append(c.broken, fault{e.Package + " does not build", c.outside[e.FailedBuild]})
	case c.failing[e.Package] == 0:
		c.broken = append(c.broken, fault{e.Package + " failed outside its tests", c.outside[e.Package]})
	}
	delete(c.fatals, e.Package)
	delete(c.failing, e.Package)
	delete(c.outside, e.Package)
}

// text reads a line that is not an event: of make, of the go command, of a numbered case.
func (c *collector) text(line string) {
	c.print(line + "\n")
	c.keep("", line+"\n")
	if output, found := strings.CutPrefix(line, "     | "); found && c.inCase != nil {
		c.inCase.output = append(c.inCase.output, output+"\n")
		return
	}
	c.closeCase()
	m := caseLine.FindStringSubmatch(line)
	if m == nil {
		return
	}
	c.ran = true
	switch m[2] {
	case "ok":
		c.passed++
	case "skip":
		c.skips = append(c.skips, m[1]+": "+m[3])
	case "FAIL":
		c.inCase = &failure{target: c.target, pkg: casesPackage, test: "Test" + m[1], output: []string{line + "\n"}}
	}
}

// closeCase ends the current failed case, if there is one.
func (c *collector) closeCase() {
	if c.inCase != nil {
		c.fail(*c.inCase)
		c.inCase = nil
	}
}

// print writes to the report for people; an error in writing it changes nothing.
func (c *collector) print(text string) {
	_, _ = io.WriteString(c.show, text)
}
