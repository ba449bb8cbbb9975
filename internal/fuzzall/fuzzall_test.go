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
	inSeed = "failure while testing seed corpus entry: FuzzIt/seed#3\nfuzz: elapsed: 0s, gathering baseline coverage: 0/4 completed\n" +
		"--- FAIL: FuzzIt (0.02s)\n    --- FAIL: FuzzIt (0.00s)\n        it_test.go:9: got 1\n\nFAIL\nexit status 1\n"
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
		failed := runAll(&bytes.Buffer{}, fstest.MapFS{}, []target{{"./p", "FuzzIt"}, {"./p", "FuzzNext"}}, func(to io.Writer, at target) error {
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
	failed := runAll(&out, fstest.MapFS{}, []target{{"./a", "FuzzA"}, {"./b", "FuzzB"}}, func(io.Writer, target) error { return errors.New("exit status 1") })
	if len(failed) != 2 || out.String() != "fuzz ./a FuzzA\nfuzz ./b FuzzB\n" {
		t.Errorf("%v failed, said %q", failed, out.String())
	}
}

// What failed is shown, with the inputs that were stored and were not there before.
func TestShow(t *testing.T) {
	t.Parallel()
	const input = "go test fuzz v1\n[]byte(\"\\x80\")\n"
	long := "go test fuzz v1\nstring(" + strings.Repeat("x", maxLineBytes) + ")\n"
	many := strings.Repeat("byte(1)\n", maxLines+2)
	for _, c := range []struct {
		name, said string
		stored     string
		want       string
	}{
		{"a failing input", crash, input, "failed: ./p FuzzIt\n        --- FAIL: FuzzIt (0.00s)\n            it_test.go:9: context deadline exceeded\n" +
			"        Failing input written to testdata/fuzz/FuzzIt/77\n    p/testdata/fuzz/FuzzIt/77:\n    go test fuzz v1\n    []byte(\"\\x80\")\n"},
		{"the time was up while the input was made smaller", upTooLate, input, "failed: ./p FuzzIt\n        context deadline exceeded\n" +
			"    p/testdata/fuzz/FuzzIt/77:\n    go test fuzz v1\n    []byte(\"\\x80\")\n"},
		{"a seed", inSeed, "", "failed: ./p FuzzIt\n    failure while testing seed corpus entry: FuzzIt/seed#3\n        --- FAIL: FuzzIt (0.00s)\n            it_test.go:9: got 1\n"},
		{"not built", noBuild, "", "failed: ./p FuzzIt\n    # example.com/p\n    ./it_test.go:3:1: syntax error\n    FAIL\texample.com/p [build failed]\n"},
		{
			"ended by a signal", strings.Repeat("fuzz: elapsed\n", 20) + "signal: killed\n", "",
			"failed: ./p FuzzIt\n" + strings.Repeat("    fuzz: elapsed\n", maxLines-1) + "    signal: killed\n",
		},
		{"a large input", "", long, "failed: ./p FuzzIt\n    p/testdata/fuzz/FuzzIt/77:\n    go test fuzz v1\n    string(" +
			strings.Repeat("x", maxLineBytes-len("string(")) + " (8 bytes more)\n"},
		{"an input of many arguments", "", many, "failed: ./p FuzzIt\n    p/testdata/fuzz/FuzzIt/77:\n" +
			strings.Repeat("    byte(1)\n", maxLines) + "    (2 lines more)\n"},
	} {
		module := fstest.MapFS{"p/testdata/fuzz/FuzzIt/11": {Data: []byte("old")}, "p/testdata/fuzz/FuzzOther/22": {}}
		failed := runAll(&bytes.Buffer{}, module, []target{{"./p", "FuzzIt"}}, func(to io.Writer, _ target) error {
			_, _ = io.WriteString(to, c.said)
			if c.stored != "" {
				module["p/testdata/fuzz/FuzzIt/77"] = &fstest.MapFile{Data: []byte(c.stored)}
			}
			return errors.New("exit status 1")
		})
		var out strings.Builder
		for _, f := range failed {
			f.show(&out, module)
		}
		if out.String() != c.want {
			t.Errorf("%s: shown:\n%s\nwant:\n%s", c.name, out.String(), c.want)
		}
	}
}
