package raftfsm

import "time"

const (
	// gatherMessages is how many messages must wait, together with the messages of the entry before, for commands to
	// be gathered: for fewer, a wait does not pay.
	gatherMessages = 256
	// gatherMost bounds how long after an entry the next one leaves.
	gatherMost = 8 * time.Millisecond
	// skipFirst and skipMost are how many entries are not held after one was held in vain
	// twice, and after many.
	skipFirst = 8
	skipMost  = 1024
)

// gathering makes fewer and larger entries of many commands. An entry costs all members
// the same whatever it carries: a write and a sync each, and dozens of goroutines that wake
// one another. So under load entries leave apart by twice the time that the last one took
// to be applied, but at most gatherMost: while one is on its way and as long again. What
// fills an entry leaves at once, as does all that comes slowly.
//
// Clients that wait for answers send nothing more while the queue is held, and would be
// slowed down for nothing. So if nothing comes in the last quarter of the time, twice
// running, entries are not held for a while, which doubles each time. The proposer's lock
// guards it.
type gathering struct {
	messages int           // in the queue; a command without bodies counts as one
	last     int           // in the entry that left last
	left     time.Time     // when it did
	took     time.Duration // from when the newest applied entry left until it was
	waits    bool          // a timer asks for a step

	until time.Time // the queue is held; zero: it is not
	quiet time.Time // if nothing has come since, it is in vain
	came  time.Time // when the last command came while a timer waits
	vain  int       // how often running
	skip  int       // entries not to be held
}

// weight is what a command counts.
func weight(c *Command) int { return max(1, len(c.Bodies)) }

// hold returns how much longer the queue is to wait for more commands, 0 if it is not.
func (g *gathering) hold(now time.Time) time.Duration {
	if g.skip > 0 || g.last+g.messages < gatherMessages {
		return 0
	}
	gap := min(2*g.took, gatherMost)
	wait := gap - now.Sub(g.left)
	if wait <= 0 {
		return 0
	}
	if g.until.IsZero() {
		g.until, g.quiet = now.Add(wait), now.Add(wait-min(wait, gap/4))
	}
	return wait
}

// leaves records that an entry leaves with so many messages of the queue.
func (g *gathering) leaves(messages int, now time.Time) {
	g.messages -= messages
	g.last, g.left = messages, now
	g.skip = max(0, g.skip-1)
	if g.until.IsZero() {
		return
	}
	if now.Before(g.until) || g.came.After(g.quiet) { // full, or worth it
		g.vain = 0
	} else if g.vain++; g.vain > 1 {
		g.skip = min(skipFirst<<min(g.vain-2, 16), skipMost)
	}
	g.until = time.Time{}
}
