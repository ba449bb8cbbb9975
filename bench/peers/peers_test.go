package peers

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestWorkloads(t *testing.T) {
	all, quick := Workloads(false), Workloads(true)
	if len(all) != 24 || len(quick) != 8 {
		t.Fatalf("%d workloads, %d quick ones; want 24 and 8", len(all), len(quick))
	}
	for _, w := range quick {
		if !slices.Contains(all, w) {
			t.Errorf("%s is quick only", w)
		}
	}
}

func TestValidate(t *testing.T) {
	err := Config{Time: -time.Second, Only: "quorate,kafka"}.Validate()
	for _, part := range []string{"Binary", "Time", `"kafka"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not name %s", err, part)
		}
	}
	if err := (Config{Binary: "x", Only: "nats"}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestCompare(t *testing.T) {
	small, large := Workload{12, 1, 100}, Workload{1024, 1, 100}
	r := Report{
		Systems: []System{{Name: "own"}, {Name: "peer"}},
		Figures: []Figures{
			{System: "own", Workload: small, MessagesPerCPUs: 1000, Consumed: 50, ConfirmP50: 2, ConfirmP99: 4, EndToEndP50: 1, EndToEndP99: 1},
			{System: "own", Workload: large, MessagesPerCPUs: 900, Consumed: 50, ConfirmP50: 1, ConfirmP99: 1, EndToEndP50: 1, EndToEndP99: 1},
			{System: "peer", Workload: small, MessagesPerCPUs: 250, Consumed: 25, ConfirmP50: 6, ConfirmP99: 2, EndToEndP50: 1, EndToEndP99: 1},
			{System: "peer", Workload: large, MessagesPerCPUs: 100, Consumed: 25, ConfirmP50: 1, ConfirmP99: 1, EndToEndP50: 1, EndToEndP99: 1},
			{System: "peer", Workload: Workload{16, 1, 1}, MessagesPerCPUs: 1, Error: "it ended"},
		},
	}
	r.Compare()
	if len(r.Ratios) != 2 || len(r.Means) != 1 {
		t.Fatalf("ratios %v, means %v", r.Ratios, r.Means)
	}
	if x := r.Ratios[0]; x.PerCPU != 4 || x.Consumed != 2 || x.ConfirmP50 != 3 || x.ConfirmP99 != 0.5 {
		t.Errorf("ratios %+v", x)
	}
	if m := r.Means[0]; m.Workloads != 2 || math.Abs(m.Geometric-6) > 1e-9 || m.Least != 4 || m.Most != 9 {
		t.Errorf("mean %+v", m)
	}
}

func TestParseStat(t *testing.T) {
	const line = "4242 (a b) c) S 17 4242 1 0 -1 4194560 100 0 0 0 25 75 3 4 20 0 9 0 100 1 2"
	s, err := parseStat(line)
	if err != nil || s.parent != 17 || s.ticks != 107 {
		t.Errorf("%+v, %v; want parent 17, 107 ticks", s, err)
	}
	for _, bad := range []string{"", "1 (x) S 1 2", strings.Replace(line, " 75 ", " x ", 1)} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A process counts with what it started, and ends with it.
func TestProcess(t *testing.T) {
	dir := t.TempDir()
	p, err := run(dir, "family", nil, "sh", "-c", "sleep 1000 & echo $! > child; wait")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = until(ctx, func() error {
		if _, err := os.Stat(filepath.Join(dir, "child")); err != nil {
			return err
		}
		if len(descendants([]int{p.pid})) < 2 {
			return errors.New("no child yet")
		}
		return nil
	})
	if err != nil {
		p.end()
		t.Fatal(err)
	}
	family := descendants([]int{p.pid})
	if _, err := cpu([]int{p.pid}); err != nil {
		t.Error(err)
	}
	p.end()
	err = until(ctx, func() error {
		for _, pid := range family {
			text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
			if err == nil && !strings.Contains(string(text), ") Z ") { // a zombie waits for its parent only
				return errors.New("still there: " + string(text))
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := cpu([]int{p.pid}); err == nil {
		t.Error("the processor time of a process that is gone")
	}
}

func TestMissing(t *testing.T) {
	var m missing
	if _, err := findNATS(t.Context(), "/nonexistent/nats-server", false); !errors.As(err, &m) {
		t.Errorf("a server that is not there: %v", err)
	}
	if _, err := findRabbit(t.Context(), "/nonexistent"); !errors.As(err, &m) {
		t.Errorf("a server that is not there: %v", err)
	}
}
