package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTicks(t *testing.T) {
	stat := "42 (a node) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 100 0 0"
	if n, err := ticksOf(stat); err != nil || n != 300 {
		t.Errorf("%d, %v, want 300", n, err)
	}
	if _, err := ticksOf("nonsense"); err == nil {
		t.Error("nonsense passes")
	}
}

func TestRowsAreJSON(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, "some", []Row{{Name: "n", Value: 1.5, Unit: "s", Aim: lower}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "some.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, key := range []string{"name", "value", "unit", "compared_with", "ratio", "aim"} {
		if _, has := rows[0][key]; !has {
			t.Errorf("row lacks %q", key)
		}
	}
}

func TestCompare(t *testing.T) {
	rows := []Row{{Name: "a", Value: 3, ComparedWith: "b"}, {Name: "b", Value: 2}, {Name: "c", Value: 1, ComparedWith: "zero"}, {Name: "zero"}}
	if err := compare(rows); err != nil {
		t.Fatal(err)
	}
	if rows[0].Ratio == nil || *rows[0].Ratio != 1.5 || rows[1].Ratio != nil || rows[2].Ratio != nil {
		t.Errorf("%+v", rows)
	}
	for fault, rows := range map[string][]Row{
		"which was not measured": {{Name: "a", ComparedWith: "b"}},
		"two rows are named":     {{Name: "a"}, {Name: "a"}},
	} {
		if err := compare(rows); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v, want %q", err, fault)
		}
	}
}

func TestTable(t *testing.T) {
	ratio := 0.0421
	var b strings.Builder
	rows := []Row{{Name: "rate", Value: 123456.7, Unit: "m/s", Aim: higher}, {Name: "slow", Value: 1.234, Ratio: &ratio, ComparedWith: "rate"}}
	if err := printTable(&b, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ratio ", "-      rate    123457  m/s", "0.042  slow    1.23", "compared with"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q lacks %q", b.String(), want)
		}
	}
}

func TestChoose(t *testing.T) {
	for only, want := range map[string]string{"": "queue,group,log,end", "end,queue": "queue,end", "log": "log"} {
		chosen, err := chooseNamed(parts(), only, part.named)
		if err != nil || names(chosen, part.named) != want {
			t.Errorf("%q: %s, %v, want %s", only, names(chosen, part.named), err, want)
		}
	}
	for _, only := range []string{"que", "queue,queue", "queue,", " "} {
		if chosen, err := chooseNamed(parts(), only, part.named); err == nil {
			t.Errorf("%q passes as %s", only, names(chosen, part.named))
		}
	}
}

func TestOptions(t *testing.T) {
	o := options{rounds: 1, waiting: 1, messages: 1, inFlight: 1, rate: 1, limit: time.Second, time: time.Second, latencyTime: time.Second}
	if err := o.validate(); err != nil {
		t.Error(err)
	}
	err := options{}.validate()
	for _, flag := range []string{"-in-flight", "-rounds", "-waiting", "-messages", "-rate", "-limit", "-time", "-latency-time"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v does not name %s", err, flag)
		}
	}
}

// TestDrained shows that consumers end when all is acked, whichever comes last.
func TestDrained(t *testing.T) {
	for name, steps := range map[string]func(d *drained){
		"ack last":   func(d *drained) { d.ack(); d.published(2); d.close(); d.ack() },
		"close last": func(d *drained) { d.published(2); d.ack(); d.ack(); d.close() },
		"nothing":    func(d *drained) { d.close() },
	} {
		stopped := 0
		d := drained{stop: func() { stopped++ }}
		steps(&d)
		if stopped != 1 {
			t.Errorf("%s: stopped %d times", name, stopped)
		}
	}
	d := drained{stop: func() { t.Error("stopped with a message to come") }}
	d.ack()
	d.published(2)
	d.close()
}
