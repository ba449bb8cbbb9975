package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeMake prints what it was given for a target, the second list when the target is
// run again; it notes its calls.
type fakeMake struct {
	first, second map[string]string
	calls         []string
}

var errExit = errors.New("exit status 2")

func (m *fakeMake) run(to io.Writer, target string, vars []string) error {
	m.calls = append(m.calls, strings.Join(append([]string{target}, vars...), " "))
	text := m.first[target]
	if slices.ContainsFunc(vars, func(v string) bool { return strings.Contains(v, "-run=") }) {
		text = m.second[target]
	}
	text, failed := strings.CutPrefix(text, "!")
	_, _ = io.WriteString(to, text)
	if failed {
		return errExit
	}
	return nil
}

// events builds the stream of one package: "+T" passes, "-T" fails, "~T" is skipped,
// "?T" begins and never ends, "T: text" prints for the test, ": text" for the package,
// "P" and "F" end the package, "B" says that it did not build.
func events(pkg string, steps ...string) string {
	var b strings.Builder
	add := func(action, test, output string) {
		fmt.Fprintf(&b, "{\"Action\":%q,\"Package\":%q,\"Test\":%q,\"Output\":%q}\n", action, pkg, test, output)
	}
	for _, s := range steps {
		test, text, printed := strings.Cut(s, ": ")
		switch {
		case printed:
			add("output", test, text+"\n")
		case s == "P":
			add("pass", "", "")
		case s == "F":
			add("fail", "", "")
		case s == "B":
			fmt.Fprintf(&b, "{\"Action\":\"fail\",\"Package\":%q,\"FailedBuild\":%q}\n", pkg, pkg)
		default:
			add(map[byte]string{'+': "pass", '-': "fail", '~': "skip", '?': "run"}[s[0]], s[1:], "")
		}
	}
	return b.String()
}

const caseFailed = `T001 ok      0.10s  first
T002 FAIL    0.20s  second
     |     a_test.go:9: got 1, want 2
T003 skip    0.00s  needs root
1 passed, 1 failed, 1 skipped
`

func TestRun(t *testing.T) {
	const p = "example.org/m/pkg"
	tests := []struct {
		name    string
		targets []string
		first   map[string]string
		second  map[string]string
		ok      bool
		result  string
		again   []string // calls after the first ones
	}{
		{
			name: "all pass", targets: []string{"main"}, ok: true,
			first:  map[string]string{"main": events(p, "+TestA", "TestB/x:     b_test.go:3: needs root", "~TestB/x", "+TestB", "P")},
			result: "figures 2 0 1 0\nskipped pkg.TestB/x: needs root\n",
		},
		{
			name: "one fails once", targets: []string{"main", "other"}, ok: true,
			first: map[string]string{
				"main": "!" + events(p, "+TestA", "TestB/x: too late", "-TestB/x", "-TestB", "F"), "other": events(p, "+TestC", "P"),
			},
			second: map[string]string{"main": events(p, "+TestB/x", "+TestB", "P")},
			result: "figures 3 0 0 1\nflaky pkg.TestB (failed once, passed alone)\n",
			again:  []string{"main TESTFLAGS=-json -count=1 -run=^TestB$$ PKG=" + p + " ALL=" + p},
		},
		{
			name: "one fails again, one passes", targets: []string{"main"},
			first:  map[string]string{"main": "!" + events(p, "-TestA", "-TestB", "F")},
			second: map[string]string{"main": "!" + events(p, "-TestA", "F")},
			result: "figures 0 2 0 0\nfailed pkg.TestA\nfailed pkg.TestB\n",
			again: []string{
				"main TESTFLAGS=-json -count=1 -run=^TestA$$ PKG=" + p + " ALL=" + p,
				"main TESTFLAGS=-json -count=1 -run=^TestB$$ PKG=" + p + " ALL=" + p,
			},
		},
		{
			name: "a test that is skipped alone has not passed", targets: []string{"main"},
			first:  map[string]string{"main": "!" + events(p, "-TestA", "F")},
			second: map[string]string{"main": events(p, "~TestA", "P")},
			result: "figures 0 1 0 0\nfailed pkg.TestA\n",
			again:  []string{"main TESTFLAGS=-json -count=1 -run=^TestA$$ PKG=" + p + " ALL=" + p},
		},
		{
			name: "too many, over all targets", targets: []string{"main", "other"},
			first: map[string]string{
				"main": "!" + events(p, "-TestA", "-TestB", "F"), "other": "!" + events(p, "-TestC", "-TestD", "F"),
			},
			result: "figures 0 4 0 0\nfailed pkg.TestA\nfailed pkg.TestB\nfailed pkg.TestC\nfailed pkg.TestD\n",
		},
		{
			name: "another package does not build", targets: []string{"main"},
			first:  map[string]string{"main": "!" + events("m/bad", "B") + events(p, "-TestA", "F")},
			result: "figures 0 2 0 0\nfailed m/bad does not build\nfailed pkg.TestA\n",
		},
		{
			name: "a panic", targets: []string{"main"},
			first:  map[string]string{"main": "!" + events(p, "TestA: panic: no", "-TestA", "F")},
			result: "figures 0 1 0 0\nfailed pkg.TestA\n",
		},
		{
			name: "a data race that another test printed", targets: []string{"main"},
			first:  map[string]string{"main": "!" + events(p, "TestB: WARNING: DATA RACE", "-TestA", "+TestB", "F")},
			result: "figures 1 1 0 0\nfailed pkg.TestA\n",
		},
		{
			name: "a broken invariant in a log", targets: []string{"main"},
			first:  map[string]string{"main": "!" + events(p, `TestA: level=ERROR error="machine panicked: x"`, "-TestA", "F")},
			result: "figures 0 1 0 0\nfailed pkg.TestA\n",
		},
		{
			name: "a package out of time", targets: []string{"main"},
			first:  map[string]string{"main": "!" + events(p, "-TestB", "?TestA", "TestA: panic: test timed out after 10m0s", "F")},
			result: "figures 0 2 0 0\nfailed pkg.TestA did not end\nfailed pkg.TestB\n",
		},
		{
			name: "a process that ends", targets: []string{"main"},
			first:  map[string]string{"main": "!" + events(p, "+TestA", "F")},
			result: "figures 1 1 0 0\nfailed " + p + " failed outside its tests\n",
		},
		{
			name: "a panic in a test that wants it says nothing of others", targets: []string{"main"}, ok: true,
			first: map[string]string{
				"main": "!" + events("m/other", "TestX: panic: wanted", "+TestX", "P") + events(p, "-TestA", "F"),
			},
			second: map[string]string{"main": events(p, "+TestA", "P")},
			result: "figures 2 0 0 1\nflaky pkg.TestA (failed once, passed alone)\n",
			again:  []string{"main TESTFLAGS=-json -count=1 -run=^TestA$$ PKG=" + p + " ALL=" + p},
		},
		{
			name: "a target that fails before its tests", targets: []string{"main"},
			first:  map[string]string{"main": "!cannot build\nmake: *** [main] Error 1"},
			result: "figures 0 1 0 0\nfailed make main: exit status 2\n",
		},
		{
			name: "no test at all", targets: []string{"main"},
			first:  map[string]string{"main": "nothing to be done\n"},
			result: "figures 0 1 0 0\nfailed make main: no test ran\n",
		},
		{
			name: "a numbered case", targets: []string{"cases"}, ok: true,
			first:  map[string]string{"cases": "!" + caseFailed},
			second: map[string]string{"cases": "T002 ok      0.20s  second\n1 passed, 0 failed, 0 skipped\n"},
			result: "figures 2 0 1 1\nskipped T003: needs root\nflaky cases.TestT002 (failed once, passed alone)\n",
			again:  []string{"cases TESTFLAGS=-json -count=1 -run=^TestT002$$"},
		},
		{
			name: "a numbered case that panics", targets: []string{"cases"},
			first:  map[string]string{"cases": "!T002 FAIL    0.20s\n     | panic: x\n0 passed, 1 failed, 0 skipped\n"},
			result: "figures 0 1 0 0\nfailed cases.TestT002\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &fakeMake{first: tt.first, second: tt.second}
			var out strings.Builder
			s := suite{run: m.run, out: &out, name: "all", dir: t.TempDir(), limit: 3}
			ok, err := s.Run(tt.targets)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(s.dir, "all.result"))
			if err != nil {
				t.Fatal(err)
			}
			if ok != tt.ok || string(got) != tt.result {
				t.Errorf("ok = %v, want %v\ngot:\n%s\nwant:\n%s\nshown:\n%s", ok, tt.ok, got, tt.result, out.String())
			}
			if again := m.calls[len(tt.targets):]; !slices.Equal(again, tt.again) {
				t.Errorf("run again: %q, want %q", again, tt.again)
			}
		})
	}
}

// What a flaky test printed first is kept; what is shown names it and where that is.
func TestOutputOfFlakyTestIsKept(t *testing.T) {
	m := &fakeMake{
		first:  map[string]string{"main": "!" + events("m/pkg", "TestA:     a_test.go:3: too late", "-TestA", "TestB: noise", "+TestB", "F")},
		second: map[string]string{"main": events("m/pkg", "+TestA", "P")},
	}
	var out strings.Builder
	s := suite{run: m.run, out: &out, name: "all", dir: t.TempDir(), limit: 1}
	if ok, err := s.Run([]string{"main"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	kept, err := os.ReadFile(filepath.Join(s.dir, "flaky-all-pkg.TestA.log"))
	if err != nil || string(kept) != "    a_test.go:3: too late\n" {
		t.Errorf("kept %q, %v", kept, err)
	}
	for _, want := range []string{"too late", "flaky: pkg.TestA (failed once, passed alone)", "flaky-all-pkg.TestA.log"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not shown:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "noise") {
		t.Errorf("the output of a test that passed is shown:\n%s", out.String())
	}
	whole, err := os.ReadFile(filepath.Join(s.dir, "all.events.log"))
	if err != nil || !strings.Contains(string(whole), "noise") {
		t.Errorf("the log lacks a line: %q, %v", whole, err)
	}
}

// The first faults are shown once more at the end, each with the end of what it printed.
func TestFaultsAreShownAtTheEnd(t *testing.T) {
	const p = "m/pkg"
	build := "{\"Action\":\"build-output\",\"ImportPath\":\"m/bad\",\"Output\":\"bad.go:1:1: syntax error\\n\"}\n"
	long := []string{"TestA: === RUN   TestA"}
	var end string
	for i := range 2 * shownLines {
		long = append(long, fmt.Sprintf("TestA: line %d", i))
		if i >= shownLines {
			end += fmt.Sprintf("line %d\n", i)
		}
	}
	long = append(long, "TestA: --- PASS: TestA/x (0.00s)", "TestA: ", "-TestA")
	for _, c := range []struct{ name, output, want string }{
		{"a test", events(p, append(long, "TestB: noise", "+TestB", "F")...), "\nfailed: pkg.TestA\n" + end},
		{"a build", build + events("m/bad", "B") + events(p, "+TestB", "P"), "\nfailed: m/bad does not build\nbad.go:1:1: syntax error\n"},
		{"a package", events(p, "+TestB", ": exit status 3", "F"), "\nfailed: m/pkg failed outside its tests\nexit status 3\n"},
		{"a test that does not end", events(p, "?TestA", "TestA: waits", "F"), "\nfailed: pkg.TestA did not end\nwaits\n"},
		{"a target", "make: *** no rule\n", "\nfailed: make main: exit status 2\nmake: *** no rule\n"},
		{"many", events(p, "-T1", "-T2", "-T3", "-T4", "F"), "\nfailed: pkg.T1\n\nfailed: pkg.T2\n\nfailed: pkg.T3\n"},
	} {
		m := &fakeMake{first: map[string]string{"main": "!" + c.output}}
		var out strings.Builder
		s := suite{run: m.run, out: &out, name: "all", dir: t.TempDir()}
		if ok, err := s.Run([]string{"main"}); ok || err != nil {
			t.Fatal(ok, err)
		}
		if !strings.HasSuffix(out.String(), c.want) {
			t.Errorf("%s: shown:\n%s\nwant at the end:\n%s", c.name, out.String(), c.want)
		}
	}
}

// Lines come in pieces from a pipe.
func TestPartialLines(t *testing.T) {
	c := newCollector("main", io.Discard)
	for _, b := range []byte(strings.TrimSuffix(events("m/pkg", "+TestA", "-TestB", "F"), "\n")) {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	c.end(errExit)
	if c.passed != 1 || len(c.failed) != 1 || len(c.reasons) != 0 {
		t.Errorf("%d passed, failed %v, reasons %q", c.passed, c.failed, c.reasons)
	}
}
