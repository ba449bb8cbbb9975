package quorumq

import (
	"iter"
	"slices"
)

// Contents are the messages of a frozen state, and what a backup records about their queue. Only one goroutine uses
// them.
type Contents struct {
	// q has the messages, but not what commands need that is derived from them: sums, heaps and references. So it is
	// only read.
	q *Queue
}

// Contents returns the messages. It does not examine those that are ready, delayed or in the backlog, but takes over
// their blocks: Restore decodes, checks and encodes each message, which would keep a processor busy for 0.1 s if
// there are a million.
func (f *Frozen) Contents() (*Contents, error) {
	f.pack()
	without := Frozen{rest: f.rest, windows: f.windows, packed: true}
	q, err := read(without.AppendSnapshot(nil))
	if err != nil {
		return nil, err
	}
	r := &q.store.ready
	for l := range f.ready {
		if f.occupied&(1<<l) != 0 {
			takeOver(r.level(l), f.ready[l])
			r.occupied |= 1 << l
			r.inLevels += r.level(l).len()
		}
	}
	takeOver(&r.returned, f.back)
	takeOver(&q.backlog.set, f.backlog)
	takeOver(&q.store.delays.set, f.delayed)
	return &Contents{q: q}, nil
}

// takeOver gives an empty deque packed blocks, whose bytes it shares.
func takeOver[T any, P record[T]](d *deque[T, P], blocks []*block[T]) {
	d.blocks = slices.Clone(blocks)
	for _, b := range blocks {
		d.live += b.live.count()
	}
	if d.live > 0 {
		d.skip()
	}
}

// Save yields the messages; see Queue.Save.
func (c *Contents) Save() iter.Seq[Saved] { return c.q.Save() }

// Held returns how many messages Save yields.
func (c *Contents) Held() uint64 { return c.q.Held() }

// Now returns the queue's time.
func (c *Contents) Now() Time { return c.q.Now() }

// BacklogLeft returns how many messages have left the backlog; see Queue.BacklogLeft.
func (c *Contents) BacklogLeft() uint64 { return c.q.BacklogLeft() }
