package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// logged matches what t.Log and t.Skip write: "    file.go:12: text".
var logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)

// event is one line of `go test -json`; fields as in `go doc test2json`.
type event struct {
	Action  string
	Test    string
	Elapsed float64
	Output  string
	Key     string
	Value   string
}

// result is what the collector has read about one case so far.
type result struct {
	name     string // "T011"
	title    string
	state    string // "pass", "fail", "skip"; empty while it runs
	seconds  float64
	output   []string // of the test and its subtests
	reason   string   // last logged line: the reason if the case was skipped
	subtests int
	skipped  int // subtests that were skipped
}

// collector collects events; one goroutine uses it.
type collector struct {
	cases   map[string]*result
	outside []string // output outside cases: builds, panics, package lines
	broken  bool     // the package failed, by itself or because of a case
}

// Report reads the stream, writes the lines, and reports whether at least one case ran and none
// failed. An error means that it could not read the stream.
func Report(r io.Reader, w io.Writer) (bool, error) {
	c := collector{cases: map[string]*result{}}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			c.add(line)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, fmt.Errorf("read test events: %w", err)
		}
	}
	return c.print(w)
}

// add reads one line of the stream. It keeps a line that is not JSON unchanged: the go command
// prints some of its own failures as plain text.
func (c *collector) add(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		c.outside = append(c.outside, string(line))
		return
	}
	name, isCase := caseOf(e.Test)
	if !isCase {
		switch e.Action {
		case "output", "build-output":
			c.outside = append(c.outside, e.Output)
		case "fail", "build-fail":
			c.broken = true
		}
		return
	}
	t := c.cases[name]
	if t == nil {
		t = &result{name: name}
		c.cases[name] = t
	}
	t.add(e, strings.Contains(e.Test, "/"))
}

// add records an event of the case or of one of its subtests.
func (t *result) add(e event, subtest bool) {
	switch e.Action {
	case "output":
		t.output = append(t.output, e.Output)
		if m := logged.FindStringSubmatch(e.Output); m != nil {
			t.reason = strings.TrimSpace(m[1])
		}
	case "attr":
		if e.Key == "case" && !subtest {
			t.title = e.Value
		}
	case "pass", "fail", "skip":
		if subtest {
			t.subtests++
			if e.Action == "skip" {
				t.skipped++
			}
			return
		}
		t.state, t.seconds = e.Action, e.Elapsed
	}
}

// print writes a line per case in the order of their numbers, then the figures.
func (c *collector) print(w io.Writer) (bool, error) {
	all := make([]*result, 0, len(c.cases))
	for _, t := range c.cases {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *result) int { return cmp.Compare(a.name, b.name) })

	var b strings.Builder
	var passed, failed, skipped int
	for _, t := range all {
		switch {
		case t.state == "skip", t.state == "pass" && t.subtests > 0 && t.skipped == t.subtests:
			skipped++
			line(&b, t, "skip", cmp.Or(t.reason, t.title))
		case t.state == "pass":
			passed++
			line(&b, t, "ok", t.title)
		default: // failed, or did not end
			failed++
			line(&b, t, "FAIL", t.title)
			indent(&b, t.output)
		}
	}
	ok := failed == 0 && len(all) > 0 && !c.broken
	if !ok && failed == 0 {
		indent(&b, c.outside)
		if len(all) == 0 && !c.broken {
			b.WriteString("no case ran: check that internal/cases has a TestT001\n")
		}
		failed++ // the package itself
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	_, err := io.WriteString(w, b.String())
	return ok, err
}

func line(b *strings.Builder, t *result, state, text string) {
	l := fmt.Sprintf("%s %-4s %7.2fs  %s", t.name, state, t.seconds, text)
	b.WriteString(strings.TrimRight(l, " ") + "\n")
}

// indent indents a case's output, to set it off from the lines of the report.
func indent(b *strings.Builder, output []string) {
	for _, o := range output {
		b.WriteString("     | " + strings.TrimRight(o, "\n") + "\n")
	}
}

// caseOf returns "T011" for TestT011 and its subtests.
func caseOf(test string) (string, bool) {
	top, _, _ := strings.Cut(test, "/")
	name, found := strings.CutPrefix(top, "Test")
	return name, found && len(name) == 4 && name[0] == 'T'
}
