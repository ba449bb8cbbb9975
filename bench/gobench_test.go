package main

import (
	"maps"
	"strings"
	"testing"
)

const sample = `goos: linux
goarch: amd64
pkg: example.org/p
cpu: Some Processor
BenchmarkGroup/bolt/messages=64/window=64-2         	    2648	    204365 ns/op	        77.61 entries/s	 1.5e+03 p50-µs
BenchmarkPlain-2	1	0 B/op
--- BENCH: BenchmarkPlain-2
    p_test.go:7: said on the way
PASS
ok  	example.org/p	35.149s
`

func TestParse(t *testing.T) {
	r, err := parse(strings.NewReader(sample), 2)
	if err != nil {
		t.Fatal(err)
	}
	want := results{
		"Group/bolt/messages=64/window=64": {"ns/op": 204365, "entries/s": 77.61, "p50-µs": 1500},
		"Plain":                            {"B/op": 0},
	}
	if len(r) != len(want) {
		t.Errorf("%v, want %v", r, want)
	}
	for name, metrics := range want {
		if !maps.Equal(r[name], metrics) {
			t.Errorf("%s: %v, want %v", name, r[name], metrics)
		}
	}
	// One processor adds no number to names, and takes none off.
	r, err = parse(strings.NewReader("BenchmarkA/x-2\t1\t3 ns/op\nPASS\n"), 1)
	if err != nil || r["A/x-2"]["ns/op"] != 3 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for output, fault := range map[string]string{
		"":                                              "does not say PASS",
		"BenchmarkA-2\t1\t3 ns/op\n":                    "does not say PASS",
		"BenchmarkA-2\n":                                "pairs of value and unit",
		"BenchmarkA-2\t1\t3\n":                          "pairs of value and unit",
		"BenchmarkA-2\t1\t3 ns/op\t4\n":                 "pairs of value and unit",
		"BenchmarkA-4\t1\t3 ns/op\n":                    "did not run on 2 processors",
		"BenchmarkA\t1\t3 ns/op\n":                      "did not run on 2 processors",
		"BenchmarkA-2\tmany\t3 ns/op\n":                 `"many" is not a count`,
		"BenchmarkA-2\t0\t3 ns/op\n":                    `"0" is not a count`,
		"BenchmarkA-2\t1\tNaN ns/op\n":                  `"NaN" is not a value of ns/op`,
		"BenchmarkA-2\t1\t-3 ns/op\n":                   `"-3" is not a value`,
		"BenchmarkA-2\t1\t+Inf x/s\n":                   "is not a value",
		"BenchmarkA-2\t1\t3 ns/op\t4 ns/op\n":           "ns/op comes twice",
		strings.Repeat("BenchmarkA-2\t1\t3 ns/op\n", 2): "line 2 of the benchmarks' output: A comes twice",
		"PASS\n--- FAIL: BenchmarkA\n":                  "line 2",
		"\nlogged by somebody\nPASS\n":                  `line 2 of the benchmarks' output: "logged by somebody"`,
	} {
		if r, err := parse(strings.NewReader(output), 2); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%q: %v, %v, want %q", output, r, err, fault)
		}
	}
}

// TestSuites shows that figures are named once, compare with figures of their suite, and
// say what to aim at.
func TestSuites(t *testing.T) {
	for _, s := range []suite{queueSuite(), groupSuite(), logSuite()} {
		r := results{}
		for _, f := range s.figures {
			if r[f.bench] == nil {
				r[f.bench] = map[string]float64{}
			}
			r[f.bench][f.metric] = 32
		}
		rows, err := s.rows(r)
		if err != nil {
			t.Errorf("%s: %v", s.pkg, err)
		}
		for _, row := range rows {
			if row.Name == "" || row.Unit == "" || row.Aim == "" || (row.ComparedWith != "") != (row.Ratio != nil) {
				t.Errorf("%s: %+v", s.pkg, row)
			}
		}
		if _, err := s.rows(results{}); err == nil || strings.Count(err.Error(), "needs it") != len(s.figures) {
			t.Errorf("%s: absent benchmarks give %v", s.pkg, err)
		}
	}
}

func TestLimit(t *testing.T) {
	s := suite{figures: []figure{{bench: "B", metric: "x", name: "n", limit: 64, scale: 2}}}
	rows, err := s.rows(results{"B": {"x": 16}})
	if err != nil || len(rows) != 1 || rows[0].Value != 32 || *rows[0].Ratio != 0.5 || rows[0].Aim != "at most 64" {
		t.Errorf("%+v, %v", rows, err)
	}
}
