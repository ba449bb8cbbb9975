package main

import (
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestLiveHeap(t *testing.T) {
	log := "gc 1 @0.6s 0%: 0.06+8.8+0.02 ms clock, 0.1+0.08/2/0+0.04 ms cpu, 24->24->21 MB, 24 MB goal, 0 MB stacks, 0 MB globals, 2 P\n" +
		"gc 2 @2.1s 0%: 1.4+11+0.004 ms clock, 2.8+2.7/3.3/0+0.008 ms cpu, 63->65->100 MB, 63 MB goal, 0 MB stacks, 0 MB globals, 2 P\n"
	for text, want := range map[string]float64{
		log: 104.8576, log + "{\"msg\":\"1 MB, 2->3\"}\n": 104.8576, log + "gc 3 @3s 0%: 1.4+11": 104.8576, "": 0, " MB, ": 0,
	} {
		if mb := liveOf(text); mb < want-0.001 || mb > want+0.001 {
			t.Errorf("%q: %g MB, want %g", text, mb, want)
		}
	}
}

// Each row has a name of its own, and a value.
func TestDeadLetterRows(t *testing.T) {
	some := work{messages: 1000, time: time.Second, cpu: 10 * time.Millisecond}
	double := work{messages: 1000, time: 2 * time.Second, cpu: 20 * time.Millisecond}
	h := hdrhistogram.New(1, maxMicros, 3)
	if err := h.RecordValue(1000); err != nil {
		t.Fatal(err)
	}
	seen := func(resident, live float64) observation { return observation{memory{resident, live}, h, 0.5} }
	rows := movedRows("12 B, ", some, double, double)
	rows = append(rows, waitedRows("all: ", some, double, seen(90, 40), seen(100, 50), seen(110, 55), seen(120, 60))...)
	names := map[string]engineRow{}
	for _, r := range rows {
		if _, twice := names[r.Name]; twice || r.Value == nil {
			t.Errorf("%+v, twice: %v", r, twice)
		}
		names[r.Name] = r
	}
	for name, want := range map[string]float64{
		"12 B, expired ÷ published, messages/s": 0.5, "12 B, rejected ÷ published, CPU of three nodes for a message": 2,
		"all: memory waiting ÷ ready": 1.1, "bystander's confirm p99, while it drains ÷ before": 1,
	} {
		r, found := names[name]
		if !found || *r.Value < want-0.01 || *r.Value > want+0.01 || r.Met != met {
			t.Errorf("%s: %+v, want %g", name, r, want)
		}
	}
}

func TestLoadGoesOn(t *testing.T) {
	over := make(chan struct{})
	l := load{during: time.Second, limit: 5, over: over}
	if !l.goesOn(4, 0) || l.goesOn(5, 0) || l.goesOn(0, time.Second) {
		t.Error("it does not end at its limits")
	}
	if close(over); l.goesOn(0, 0) {
		t.Error("it goes on though it is over")
	}
	if l := (load{during: time.Second}); !l.goesOn(1<<40, 0) {
		t.Error("it has a limit without one")
	}
}

func TestChooseDeadSuites(t *testing.T) {
	if s, err := chooseNamed(deadSuites(), "wait", deadSuite.named); err != nil || len(s) != 1 || s[0].name != "wait" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := chooseNamed(deadSuites(), "weight", deadSuite.named); err == nil || !strings.Contains(err.Error(), "move") {
		t.Error(err)
	}
}
