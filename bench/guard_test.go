package main

import (
	"strings"
	"testing"
)

// What costs more than it may is named; what costs less passes; rows and table have to be of the same figures.
func TestGuard(t *testing.T) {
	const allocs, calls = "allocs/message", "calls/message"
	table := []Row{{Name: "a", Value: 10, Unit: allocs}, {Name: "b", Value: 2, Unit: calls}}
	for _, c := range []struct {
		name string
		rows []Row
		want []string
	}{
		{"the same", []Row{{Name: "a", Value: 10, Unit: allocs}, {Name: "b", Value: 2, Unit: calls}}, nil},
		{"less", []Row{{Name: "a", Value: 1, Unit: allocs}, {Name: "b", Value: 1, Unit: calls}}, nil},
		{"within its room", []Row{{Name: "a", Value: 12.9, Unit: allocs}, {Name: "b", Value: 2.7, Unit: calls}}, nil},
		{"more", []Row{{Name: "a", Value: 13.1, Unit: allocs}, {Name: "b", Value: 3.1, Unit: calls}}, []string{"a: 13.1 allocs/message, 1.31 × the 10.0", "b: 3.10 calls/message, 1.55 ×"}},
		{"new", []Row{{Name: "a", Value: 10, Unit: allocs}, {Name: "b", Value: 2, Unit: calls}, {Name: "c", Value: 1, Unit: calls}}, []string{`no value of "c"`}},
		{"absent", []Row{{Name: "a", Value: 10, Unit: allocs}}, []string{`"b" was not measured`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := guard(c.rows, table)
			if (err == nil) != (len(c.want) == 0) {
				t.Fatalf("error %v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v: want %s", err, part)
				}
			}
		})
	}
}

// A figure that other work on the machine changes is shown and not judged.
func TestGuardShows(t *testing.T) {
	const switches = "switches/message"
	rows := []Row{{Name: "a", Value: 9, Unit: switches}}
	if err := guard(rows, []Row{{Name: "a", Value: 1, Unit: switches}}); err != nil || *rows[0].Ratio != 9 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// What a node holds at rest has bounds of its own.
func TestGuardMemory(t *testing.T) {
	table := []Row{{Name: "own", Value: 10, Unit: ownUnit}, {Name: "files", Value: 30, Unit: filesUnit}}
	for _, c := range []struct{ own, files float64 }{{12.4, 30}, {12.6, 30}, {10, 32.9}, {10, 33.1}} {
		err := guard([]Row{{Name: "own", Value: c.own, Unit: ownUnit}, {Name: "files", Value: c.files, Unit: filesUnit}}, table)
		if want := c.own > 12.5 || c.files > 33; (err != nil) != want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Each figure has a unit of its own, by which its room is found.
func TestGuardFigures(t *testing.T) {
	units := map[string]bool{ownUnit: true, filesUnit: true}
	for _, f := range guardFigures() {
		if units[f.unit] || f.atMost != 0 && f.atMost <= 1 {
			t.Errorf("%s: unit %q, at most %g", f.name, f.unit, f.atMost)
		}
		units[f.unit] = true
	}
}

func TestKnownWork(t *testing.T) {
	if knownWork() <= 0 {
		t.Error("known work takes no time")
	}
}

func TestLeastOf(t *testing.T) {
	got := leastOf([]Row{{Name: "a", Value: 1}, {Name: "b", Value: 5}}, []Row{{Name: "a", Value: 2}, {Name: "b", Value: 3}})
	if got[0].Value != 1 || got[1].Value != 3 {
		t.Errorf("%+v", got)
	}
	if got := leastOf(nil, []Row{{Name: "a", Value: 2}}); len(got) != 1 || got[0].Value != 2 {
		t.Errorf("the first round: %+v", got)
	}
}
