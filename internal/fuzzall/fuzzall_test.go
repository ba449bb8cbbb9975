package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFind(t *testing.T) {
	t.Parallel()
	got, err := find(fstest.MapFS{
		"go.mod":           {},
		"b/x_test.go":      {Data: []byte("func FuzzOne(f *testing.F) {\n}\n\nfunc FuzzTwo(f *testing.F) {}\n// func FuzzNone(\n")},
		"a/b/c_test.go":    {Data: []byte("func FuzzThree(f *testing.F) {}\nfunc TestFuzz(t *testing.T) {}\n")},
		"a/code.go":        {Data: []byte("func FuzzNot(n int) {}\n")},
		"other/go.mod":     {},
		"other/in_test.go": {Data: []byte("func FuzzOther(f *testing.F) {}\n")},
	})
	if want := []target{{"./a/b", "FuzzThree"}, {"./b", "FuzzOne"}, {"./b", "FuzzTwo"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

const (
	upTooLate = "fuzz: elapsed: 3s, execs: 148364 (49445/sec), new interesting: 27 (total: 159)\n" +
		"--- FAIL: FuzzIt (4.03s)\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL\texample.com/p\t4.032s\n"
	crash = "fuzz: minimizing 30-byte failing input file\n--- FAIL: FuzzIt (0.02s)\n    --- FAIL: FuzzIt (0.00s)\n" +
		"        it_test.go:9: context deadline exceeded\n    \n    Failing input written to testdata/fuzz/FuzzIt/77\nFAIL\n"
	hang = "--- FAIL: FuzzIt (13.1s)\n    fuzzing process hung or terminated unexpectedly: context deadline exceeded\n" +
		"    Failing input written to testdata/fuzz/FuzzIt/78\nFAIL\n"
	noBuild = "# example.com/p\n./it_test.go:3:1: syntax error\nFAIL\texample.com/p [build failed]\n"
)

func TestRunAll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		runs []string // "": passes
		ok   bool
	}{
		{"passes", []string{""}, true},
		{"the time was up", []string{upTooLate, ""}, true},
		{"twice", []string{upTooLate, upTooLate, ""}, true},
		{"each time", []string{upTooLate, upTooLate, upTooLate}, false},
		{"finds something", []string{crash}, false},
		{"finds something the next time", []string{upTooLate, crash}, false},
		{"an input takes too long", []string{hang}, false},
		{"is not built", []string{noBuild}, false},
		{"says nothing", []string{"killed\n"}, false},
	} {
		runs := 0
		failed := runAll(&bytes.Buffer{}, []target{{"./p", "FuzzIt"}, {"./p", "FuzzNext"}}, func(to io.Writer, at target) error {
			if at.name == "FuzzNext" {
				return nil
			}
			said := c.runs[runs]
			runs++
			_, _ = io.WriteString(to, said)
			if said == "" {
				return nil
			}
			return errors.New("exit status 1")
		})
		if ok := len(failed) == 0; ok != c.ok || runs != len(c.runs) {
			t.Errorf("%s: passed = %v after %d runs, want %v after %d", c.name, ok, runs, c.ok, len(c.runs))
		}
	}
	var out strings.Builder
	failed := runAll(&out, []target{{"./a", "FuzzA"}, {"./b", "FuzzB"}}, func(io.Writer, target) error { return errors.New("exit status 1") })
	if len(failed) != 2 || out.String() != "fuzz ./a FuzzA\nfuzz ./b FuzzB\n" {
		t.Errorf("%v failed, said %q", failed, out.String())
	}
}
