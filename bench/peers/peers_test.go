package peers

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
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
	small, large := Workload{Size: 12, Queues: 1, Window: 100}, Workload{Size: 1024, Queues: 1, Window: 100}
	r := Report{
		Systems: []System{{Name: "own"}, {Name: "peer"}},
		Figures: []Figures{
			{System: "own", Workload: small, MessagesPerCPUs: 1000, Consumed: 50, ConfirmP50: 2, ConfirmP99: 4, EndToEndP50: 1, EndToEndP99: 1},
			{System: "own", Workload: large, MessagesPerCPUs: 900, Consumed: 50, ConfirmP50: 1, ConfirmP99: 1, EndToEndP50: 1, EndToEndP99: 1},
			{System: "peer", Workload: small, MessagesPerCPUs: 250, Consumed: 25, ConfirmP50: 6, ConfirmP99: 2, EndToEndP50: 1, EndToEndP99: 1},
			{System: "peer", Workload: large, MessagesPerCPUs: 100, Consumed: 25, ConfirmP50: 1, ConfirmP99: 1, EndToEndP50: 1, EndToEndP99: 1},
			{System: "peer", Workload: Workload{Size: 16, Queues: 1, Window: 1}, MessagesPerCPUs: 1, Error: "it ended"},
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

// sluggish is a system whose servers report what they do.
type sluggish struct{ system }

func (sluggish) name() string { return "Sluggish" }

func (sluggish) testify(_ context.Context, dir string) error {
	return store(filepath.Join(dir, "server.log"), func(to io.Writer) error {
		_, err := io.WriteString(to, "waits")
		return err
	})
}

// A load ends when nothing comes for a while, however slow it is, or a connection is lost.
func TestWatch(t *testing.T) {
	const after = 20 * time.Second
	for _, c := range []struct {
		name  string
		run   func(*load)
		lasts time.Duration // until it is given up, or somewhat longer
		want  string
	}{
		{"confirms", func(l *load) {
			for range 10 {
				time.Sleep(after - time.Second)
				l.confirmed.Add(1)
				l.received.Add(1)
			}
			for range 15 { // these do not count yet
				time.Sleep(time.Second)
				l.received.Add(1)
			}
		}, 10*(after-time.Second) + after, "no confirm for 20s: 0 sent, 10 confirmed"},
		{"deliveries", func(l *load) {
			l.closed.Store(true)
			time.Sleep(after - time.Second)
			l.received.Add(1)
		}, 2*after - time.Second, "no delivery for 20s"},
		{"a connection", func(l *load) {
			time.Sleep(time.Second)
			l.lost <- errors.New("it was reset")
		}, time.Second, "a connection was lost: it was reset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			keep := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				l := &load{w: Workload{Size: 12, Queues: 100, Window: 1000}, lost: make(chan error, 1)}
				go c.run(l)
				begin, ended := time.Now(), make(chan error, 1)
				l.watch(t.Context(), sluggish{}, after, keep, func(err error) { ended <- err })
				if took := time.Since(begin); took < c.lasts || took > c.lasts+after/10 {
					t.Errorf("it was given up after %s, want %s", took, c.lasts)
				}
				err := <-ended
				var s *stuck
				if !errors.As(err, &s) || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want %q", err, c.want)
				}
				for _, file := range []string{"client.goroutines", "server.log"} {
					if text, err := os.ReadFile(filepath.Join(s.dir, file)); err != nil || len(text) == 0 {
						t.Errorf("%s has %d bytes, %v", file, len(text), err)
					}
				}
			})
		})
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
