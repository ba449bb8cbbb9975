package quorumq

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// The contents of frozen states are those of their queues at that moment, also when the queues go on.
func TestContents(t *testing.T) {
	type kept struct {
		*Frozen
		saved      []Saved
		now        Time
		held, left uint64
	}
	total, parts := 0, map[string]int{}
	for seed := range uint64(40) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 3)), index: 1, scale: 1 + 39*int(seed%2)}
		q := New(1024, g.config())
		g.q = q
		var all []kept
		for range 300 {
			cmd := g.command()
			q.Apply(g.meta(cmd), cmd)
			if g.one(20) {
				all = append(all, kept{q.Freeze(), slices.Collect(q.Save()), q.Now(), q.Held(), q.BacklogLeft()})
				o := q.Overview()
				for name, n := range map[string]uint64{
					"ready": o.Ready - o.Returned, "returned": o.Returned, "unsettled": o.Unsettled, "backlog": o.Backlog, "moving": o.Moving, "delayed": o.Delayed,
				} {
					parts[name] += min(int(n), 1)
				}
			}
		}
		for i, k := range all {
			c, err := k.Contents()
			if err != nil {
				t.Fatalf("seed %d: state %d: %v", seed, i, err)
			}
			if c.Now() != k.now || c.Held() != k.held || c.BacklogLeft() != k.left {
				t.Fatalf("seed %d: state %d: now %d, %d held, %d left, want %d, %d, %d", seed, i, c.Now(), c.Held(), c.BacklogLeft(), k.now, k.held, k.left)
			}
			if got := slices.Collect(c.Save()); !reflect.DeepEqual(got, k.saved) {
				t.Fatalf("seed %d: state %d has %d messages, want %d\n%+v\n%+v", seed, i, len(got), len(k.saved), got, k.saved)
			}
			total += len(k.saved)
		}
	}
	if total < 1000 {
		t.Errorf("only %d messages", total)
	}
	for _, name := range []string{"ready", "returned", "unsettled", "backlog", "moving", "delayed"} {
		if parts[name] == 0 {
			t.Errorf("no state has messages that are %s", name)
		}
	}
}

// The contents of a deep queue are there without a look at each message: what is allocated is a small part of the bytes of
// the blocks, of which Restore allocates all.
func TestContentsAreShared(t *testing.T) {
	q := New(1024, DefaultConfig())
	fill(q, 500*blockLen, Unlimited)
	f := q.Freeze()
	n := testing.AllocsPerRun(3, func() {
		if c, err := f.Contents(); err != nil || c.Held() != 500*blockLen {
			t.Errorf("%v", err)
		}
	})
	if n > 100 {
		t.Errorf("%.0f allocations for 500 blocks", n)
	}
}
