package liveness

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// election has the member of a group stand and win after a while. It returns when it won.
func election(t *testing.T, k *core, g id.GroupID, now time.Time, took time.Duration) time.Time {
	t.Helper()
	k.observe(now, g, follower("b", 5)) // whose node is lost
	if !k.conclude(now, Surveyed{g, 5, 10}, map[id.NodeID]Answer{"c": {Votes: true, LastTerm: 5, LastIndex: 9}}) {
		t.Fatal("it does not stand")
	}
	k.acted(now, g)
	k.observe(now.Add(took), g, leads("a", 6))
	return now.Add(took)
}

// gaveUpAfter has the member of a group stand and get no votes, and returns how long that
// may take.
func gaveUpAfter(k *core, g id.GroupID, now time.Time) time.Duration {
	k.observe(now, g, observed{voters: []id.NodeID{"a", "b", "c"}, state: raft.Candidate, term: 6})
	for d := time.Duration(0); ; d += 10 * time.Millisecond {
		if len(k.tick(now.Add(d)).stepDown) > 0 {
			return d
		}
	}
}

// A candidate gets the more time the longer elections take: one that waits for disks is not
// to be ended, and one that is stuck on a fast machine soon is.
func TestPatience(t *testing.T) {
	k := newTestCore("a")
	now := start()
	k.judge(now, "b", true)
	k.judge(now, "c", false)
	short, long := k.config.TurnAfter, k.config.TurnAfter*3/2 // with the jitter
	if d := gaveUpAfter(k, 1, now); d < short || d > long {
		t.Errorf("the first is ended after %v, want %v to %v", d, short, long)
	}
	k.forget(1)
	const slow = 500 * time.Millisecond
	for g := range id.GroupID(30) {
		now = election(t, k, 100+g, now, slow)
	}
	if d := gaveUpAfter(k, 2, now); d < 19*slow/10 || d > 2*slow+short {
		t.Errorf("where elections take %v one is ended after %v", slow, d)
	}
	for g := range id.GroupID(100) {
		now = election(t, k, 200+g, now, 5*time.Millisecond)
	}
	k.forget(2)
	if d := gaveUpAfter(k, 3, now); d < short || d > long {
		t.Errorf("where elections are fast again one is ended after %v, want %v to %v", d, short, long)
	}
	for g := range id.GroupID(30) {
		now = election(t, k, 300+g, now, slow)
	}
	k.forget(3)
	k.tick(now)
	if d := gaveUpAfter(k, 4, now); d < short || d > long {
		t.Errorf("after all had leaders one is ended after %v, want %v to %v", d, short, long)
	}
}

// Where candidates are ended before any wins, the next ones get more time, up to a limit.
func TestPatienceAfterFailures(t *testing.T) {
	k := newTestCore("a")
	now := start()
	k.judge(now, "b", true)
	k.judge(now, "c", false)
	last := time.Duration(0)
	for g := range id.GroupID(40) {
		d := gaveUpAfter(k, g+1, now)
		if now = now.Add(d); d > maxWait {
			t.Fatalf("ended after %v", d)
		}
		last = d
	}
	if last < maxWait/2 {
		t.Errorf("after 40 that were ended the next one is ended after %v", last)
	}
}

// Where thousands are in need, a look takes some of them, and by and by all.
func TestDoubtfulAreLookedAtInTurn(t *testing.T) {
	const groups, most = 300, 20
	k := newTestCore("a")
	for g := range id.GroupID(groups) {
		k.observe(start(), g, follower("b", 5)) // b was never seen
	}
	seen := map[id.GroupID]bool{}
	for range 100_000 {
		some := k.doubtful(most)
		if len(some) != most {
			t.Fatalf("%d of %d groups at once, want %d", len(some), groups, most)
		}
		for _, g := range some {
			seen[g] = true
		}
		if len(seen) == groups {
			return
		}
	}
	t.Errorf("%d of %d groups were never looked at", groups-len(seen), groups)
}
