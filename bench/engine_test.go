package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each row has a name of its own, an aim and a metric, and nothing that was not measured
// has a value.
func TestEngineRows(t *testing.T) {
	names := map[string]bool{}
	for _, s := range engineSuites() {
		r := results{}
		for _, f := range s.figures {
			if f.name == "" || f.metric == "" || f.unit == "" || names[f.name] {
				t.Errorf("%s: %+v, twice: %v", s.name, f, names[f.name])
			}
			names[f.name] = true
			if r[f.bench] == nil {
				r[f.bench] = map[string]float64{}
			}
			r[f.bench][f.metric] = f.goal.limit
		}
		for i, row := range s.rows(r) {
			want := met
			if s.figures[i].goal == (goal{}) {
				want = reported
			}
			if row.Value == nil || row.Met != want {
				t.Errorf("%s at its limit: %+v", row.Name, row)
			}
		}
		for _, row := range s.rows(results{}) {
			if row.Value != nil || row.Met != notThereYet || row.Aim == "" {
				t.Errorf("%s without a benchmark: %+v", row.Name, row)
			}
		}
	}
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		goal  goal
		value float64
		met   string
		aim   string
		ratio float64
	}{
		{atMost(2), 1, met, "at most 2", 0.5},
		{atMost(2), 2.1, notMet, "at most 2", 1.05},
		{atLeast(2.5), 5, met, "at least 2.5", 2},
		{atLeast(2.5), 2.4, notMet, "at least 2.5", 0.96},
		{goal{}, 7, reported, reported, 0},
	} {
		r := c.goal.row("n", "u", c.value)
		if r.Met != c.met || r.Aim != c.aim || *r.Value != c.value || (r.Ratio == nil) != (c.ratio == 0) || r.Ratio != nil && *r.Ratio != c.ratio {
			t.Errorf("%v of %+v: %+v", c.value, c.goal, r)
		}
	}
}

func TestFailoverQuantiles(t *testing.T) {
	r := failoverTimes{"killed": {3, 1, 2, 5, 4}, "paused": nil}.results()
	if r["killed"]["p50"] != 3 || r["killed"]["worst"] != 5 || len(r) != 1 {
		t.Error(r)
	}
	for _, f := range faults() {
		named := false
		for _, g := range failoverFigures() {
			named = named || g.bench == f.name
		}
		if !named {
			t.Errorf("no row shows the fault %q", f.name)
		}
	}
}

func TestBeyondLive(t *testing.T) {
	r := results{"DiskUse": {"disk-MB": 3*10 + 2*segmentMB, "live-MB": 10}}
	addBeyondLive(r)
	if got := r["DiskUse"][beyondLive]; got < 1.999 || got > 2.001 {
		t.Errorf("%g segments, want 2", got)
	}
	none := results{}
	if addBeyondLive(none); len(none) != 0 {
		t.Error(none)
	}
}

func TestChooseSuites(t *testing.T) {
	if s, err := chooseNamed(engineSuites(), "held,ratio", engineSuite.named); err != nil || len(s) != 2 || s[0].name != "ratio" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, only := range []string{"helt", "held,held", "held,"} {
		if _, err := chooseNamed(engineSuites(), only, engineSuite.named); err == nil || !strings.Contains(err.Error(), "failover") {
			t.Errorf("%q: %v", only, err)
		}
	}
}

func TestEngineTable(t *testing.T) {
	rows := []engineRow{atMost(2).row("good", "s", 1), atMost(2).absent("gone", "s", notThereYet), goal{}.row("free", "s", 3)}
	var b strings.Builder
	if err := printEngine(&b, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"good    1.00   s     at most 2  met", "gone    -      s     at most 2  not there yet", "free    3.00   s     reported"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	dir := t.TempDir()
	if err := write(dir, "engine", rows); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "engine.json"))
	if err != nil {
		t.Fatal(err)
	}
	var stored []map[string]any
	if err := json.Unmarshal(text, &stored); err != nil || len(stored) != 3 || stored[1]["value"] != nil || stored[0]["met"] != met {
		t.Errorf("%v: %s", err, text)
	}
}

// The benchmarks that the rows of one package need are there and run.
func TestEngineQuick(t *testing.T) {
	o := options{module: "..", quick: true, rounds: 1, limit: time.Minute}
	suites, err := chooseNamed(engineSuites(), "cpu", engineSuite.named)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := suites[0].run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Value == nil || *r.Value <= 0 {
			t.Errorf("%+v", r)
		}
	}
}
