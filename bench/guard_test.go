package main

import (
	"slices"
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
			err := guard(c.rows, table, true)
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

// A part alone is compared with its own rows, and replaces them.
func TestGuardInParts(t *testing.T) {
	table := []Row{{Name: "a", Value: 10, Unit: ownUnit}, {Name: "b", Value: 20, Unit: ownUnit}}
	if err := guard([]Row{{Name: "b", Value: 20, Unit: ownUnit}}, table, false); err != nil {
		t.Error(err)
	}
	if guard([]Row{{Name: "b", Value: 40, Unit: ownUnit}}, table, false) == nil {
		t.Error("twice as much passes")
	}
	got := withRows(table, []Row{{Name: "c", Value: 3}, {Name: "b", Value: 2}})
	if want := []Row{{Name: "a", Value: 10, Unit: ownUnit}, {Name: "b", Value: 2}, {Name: "c", Value: 3}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if table[1].Value != 20 {
		t.Error("the table was changed")
	}
}

// A figure that other work on the machine changes is shown and not judged.
func TestGuardShows(t *testing.T) {
	const switches = "switches/message"
	rows := []Row{{Name: "a", Value: 9, Unit: switches}}
	if err := guard(rows, []Row{{Name: "a", Value: 1, Unit: switches}}, true); err != nil || *rows[0].Ratio != 9 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// What a node holds at rest has bounds of its own, and what messages that wait need.
func TestGuardMemory(t *testing.T) {
	row := func(name string, value float64, unit string) Row { return Row{Name: name, Value: value, Unit: unit} }
	table := []Row{row("own", 10, ownUnit), row("files", 30, filesUnit), row("waiting", 100, waitingUnit), row("at work", 100, busyUnit)}
	for _, c := range []struct{ own, files, waiting float64 }{
		{12.4, 30, 100}, {12.6, 30, 100}, {10, 32.9, 100}, {10, 33.1, 100}, {10, 30, 124}, {10, 30, 126},
	} {
		err := guard([]Row{
			row("own", c.own, ownUnit), row("files", c.files, filesUnit), row("waiting", c.waiting, waitingUnit), row("at work", 900, busyUnit),
		}, table, true)
		if want := c.own > 12.5 || c.files > 33 || c.waiting > 125; (err != nil) != want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Each figure has a unit of its own, by which its room is found.
func TestGuardFigures(t *testing.T) {
	units := map[string]bool{ownUnit: true, filesUnit: true, waitingUnit: true, busyUnit: true}
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
