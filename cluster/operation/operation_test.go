package operation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/id"
)

func newRegistry(c Config) *Registry {
	c.Node, c.Epoch = "node.a", 7
	return New(c)
}

// The rate and the rest of a phase follow from what was done in it; a new phase starts over, and an end is final.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(Config{})
		steps := make(chan Progress)
		op, err := r.Start("drain", "node a", func(_ context.Context, report func(Progress)) error {
			for p := range steps {
				report(p)
			}
			return nil
		})
		if err != nil || op.ID.String() != "node.a.7.1" || op.State != Running {
			t.Fatalf("%+v, %v", op, err)
		}
		for _, row := range []struct {
			wait time.Duration
			step Progress
			rate float64
			eta  time.Duration
		}{
			{0, Progress{Phase: "move", Total: 100, Unit: "queues"}, 0, 0},
			{10 * time.Second, Progress{Phase: "move", Done: 20, Total: 100, Unit: "queues"}, 2, 40 * time.Second},
			{10 * time.Second, Progress{Phase: "move", Done: 80, Total: 100, Unit: "queues"}, 4, 5 * time.Second},
			{5 * time.Second, Progress{Phase: "catch up", Done: 500, Total: 0, Unit: "entries"}, 0, 0},
			{time.Second, Progress{Phase: "catch up", Done: 700, Total: 0, Unit: "entries"}, 200, 0},
		} {
			time.Sleep(row.wait)
			steps <- row.step
			synctest.Wait()
			op = r.List()[0]
			if op.Progress != row.step || op.Rate != row.rate || op.ETA != row.eta || !op.Updated.Equal(time.Now()) {
				t.Errorf("after %+v: %+v", row, op)
			}
		}
		close(steps)
		synctest.Wait()
		if op = r.List()[0]; op.State != Done || op.ETA != 0 || op.Error != "" {
			t.Errorf("at the end: %+v", op)
		}
		if _, err := r.Cancel(op.ID); !errors.Is(err, ErrEnded) {
			t.Errorf("cancelling it: %v", err)
		}
		r.Close()
	})
}

func TestEnds(t *testing.T) {
	for _, row := range []struct {
		name  string
		job   Job
		act   func(*Registry, ID)
		state State
		text  string
		part  bool
	}{
		{"fails", func(_ context.Context, report func(Progress)) error {
			report(Progress{Done: 3, Total: 5})
			return errors.New("no room")
		}, nil, Failed, "no room", true},
		{"fails at once", func(context.Context, func(Progress)) error { return errors.New("no") }, nil, Failed, "no", false},
		{"panics", func(context.Context, func(Progress)) error { panic("broken") }, nil, Failed, "broken", false},
		{"is cancelled", func(ctx context.Context, _ func(Progress)) error {
			<-ctx.Done()
			return fmt.Errorf("undone: %w", context.Cause(ctx))
		}, func(r *Registry, x ID) {
			if _, err := r.Cancel(x); err != nil {
				t.Error(err)
			}
		}, Cancelled, "undone: cancelled by an operator", false},
		{"is done in spite of a cancel", func(ctx context.Context, _ func(Progress)) error {
			<-ctx.Done()
			return nil
		}, func(r *Registry, x ID) { _, _ = r.Cancel(x) }, Done, "", false},
		{"ends with the node", func(ctx context.Context, _ func(Progress)) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, func(r *Registry, _ ID) { r.Close() }, Failed, ErrClosed.Error(), false},
		{"says too much", func(context.Context, func(Progress)) error {
			return errors.New(strings.Repeat("x", 2*MaxDetailBytes))
		}, nil, Failed, "xxx...", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRegistry(Config{})
			op, err := r.Start("grow", "x", row.job)
			if err != nil {
				t.Fatal(err)
			}
			if row.act != nil {
				row.act(r, op.ID)
			}
			for op.State == Running {
				if op, err = r.Await(t.Context(), op.ID, op.Version); err != nil {
					t.Fatal(err)
				}
			}
			if op.State != row.state || !strings.Contains(op.Error, row.text) || len(op.Error) > MaxDetailBytes || op.PartDone() != row.part {
				t.Errorf("%+v", op)
			}
			r.Close()
		})
	}
}

// The limits: one of a kind and target, a number that run, a number that are remembered.
func TestLimits(t *testing.T) {
	r := newRegistry(Config{MaxRunning: 2, MaxEnded: 3})
	defer r.Close()
	wait := func(ctx context.Context, _ func(Progress)) error { <-ctx.Done(); return ctx.Err() }
	first, err := r.Start("grow", "a", wait)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := r.Start("grow", "a", wait); !errors.Is(err, ErrBusy) || same.ID != first.ID || !strings.Contains(err.Error(), first.ID.String()) {
		t.Errorf("the same again: %+v, %v", same, err)
	}
	for i := range 5 {
		op, err := r.Start("grow", fmt.Sprint(i), func(context.Context, func(Progress)) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Await(t.Context(), op.ID, op.Version); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Stats(); got != (Stats{Running: 1, Ended: 3, Dropped: 2}) {
		t.Errorf("%+v", got)
	}
	if all := r.List(); len(all) != 4 || all[0].ID != first.ID || all[1].Target != "2" {
		t.Errorf("kept: %+v", all)
	}
	if _, err := r.Await(t.Context(), ID{"node.a", 7, 2}, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("a forgotten one: %v", err)
	}
	if _, err := r.Await(t.Context(), ID{"node.a", 6, 2}, 0); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "restarted") {
		t.Errorf("one of an earlier start: %v", err)
	}
	if _, err := r.Start("grow", "b", wait); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start("grow", "c", wait); !errors.Is(err, ErrBusy) {
		t.Errorf("above the limit: %v", err)
	}
	// The first of all ends last: it is kept, and of the others one more goes.
	if _, err := r.Cancel(first.ID); err != nil {
		t.Fatal(err)
	}
	if op, err := r.Await(t.Context(), first.ID, first.Version); err != nil || op.State != Cancelled {
		t.Errorf("%+v, %v", op, err)
	}
	if all := r.List(); len(all) != 4 || all[0].ID != first.ID || all[1].Target != "3" {
		t.Errorf("kept: %+v", all)
	}
	r.Close()
	if _, err := r.Start("grow", "d", wait); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestParseID(t *testing.T) {
	for _, x := range []ID{{"a", 1, 2}, {"node.with.dots", 3, 4}, {id.NodeID("node-1"), 0, 18446744073709551615}} {
		if got, err := ParseID(x.String()); got != x || err != nil {
			t.Errorf("%s: %+v, %v", x, got, err)
		}
	}
	for _, s := range []string{"", "a", "a.1", ".1.2", "a.b.2", "a.1.b", "a.1.-2"} {
		if _, err := ParseID(s); err == nil {
			t.Errorf("%q passes", s)
		}
	}
}
