package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunSuite runs benchmarks of a module made for it through the real go test.
func TestRunSuite(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/p\n\ngo 1.26.0\n",
		"p_test.go": `package p

import (
	"fmt"
	"testing"
)

func BenchmarkGood(b *testing.B) {
	for b.Loop() {
	}
	b.ReportMetric(7, "things")
}

func BenchmarkBad(b *testing.B) { b.Fatal("broken on purpose") }

func BenchmarkChatty(b *testing.B) { fmt.Println("noise") }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := suite{pkg: ".", pattern: "^BenchmarkGood$", benchTime: "10x", figures: []figure{
		{bench: "Good", metric: "things", name: "good", unit: "things", aim: higher},
		{bench: "Good", metric: "allocs/op", name: "allocations", unit: "allocs/op", aim: "0"},
	}}
	rows, err := s.run(t.Context(), dir)
	if err != nil || len(rows) != 2 || rows[0].Value != 7 || rows[1].Value != 0 {
		t.Errorf("%+v, %v", rows, err)
	}
	for pattern, fault := range map[string]string{
		"^BenchmarkBad$":    "broken on purpose",
		"^BenchmarkChatty$": "neither a result nor go test's",
		"^BenchmarkNone$":   "BenchmarkGood reports no things",
	} {
		s.pattern = pattern
		if rows, err := s.run(t.Context(), dir); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: %+v, %v, want %q", pattern, rows, err, fault)
		}
	}
}
