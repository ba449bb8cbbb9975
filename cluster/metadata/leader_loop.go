package metadata

import (
	"time"

	"github.com/quorate/quorate/internal/phase"
)

const (
	// leaderTick is the time between checks by the catalog's leader of what is not as it should be, and leaderRest
	// while all is.
	leaderTick = 500 * time.Millisecond
	leaderRest = time.Second
	// followerRest is how often other nodes check whether they lead, in case a change has gone unnoticed.
	followerRest = 10 * time.Second
)

// LeaderLoop paces a loop that looks at what the catalog's leader keeps in order. One goroutine uses it.
type LeaderLoop struct {
	g       *Group
	changed <-chan struct{} // of the time before the last look, so that nothing is missed meanwhile
}

// LeaderLoop returns the pace of a new loop. It may be called concurrently; each loop has its own.
func (g *Group) LeaderLoop() *LeaderLoop { return &LeaderLoop{g: g, changed: g.news.next()} }

// Next waits for the next look of the catalog's leader, elsewhere until that may have changed. busy: the
// last look left something to do. An error: the node stops.
func (t *LeaderLoop) Next(busy bool) error {
	led := t.g.raft.Changed()
	leader, _ := t.g.raft.Leader()
	rest := phase.Wait(time.Now(), leaderRest)
	switch {
	case leader != t.g.cfg.Node:
		rest = followerRest
	case busy:
		rest = leaderTick
	}
	return t.await(rest, led)
}

// await waits for a time, for another leader, or until who is to be a member may have changed since the
// last look.
func (t *LeaderLoop) await(rest time.Duration, led <-chan struct{}) error {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-led:
	case <-t.changed:
	case <-t.g.cfg.Life.Done():
		return t.g.cfg.Life.Err()
	}
	t.changed = t.g.news.next()
	return nil
}
