package raftfsm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// inOrder is how far an entry may be from the entry that was read before it, for bodies to count as read in the order
// of the log. Entries without bodies are between them.
const inOrder = 64

// soonBytes is how many bytes of bodies a machine may hold for the bodies of the next entry to be kept for their
// readers. With more before them, they are read much later and would only push out others.
const soonBytes = 32 << 20

// bodyReader reads a group's bodies through a cache. It may be used concurrently.
type bodyReader struct {
	cache *BodyCache
	// ahead is the entry behind which entries were last read ahead, and read is the newest one that was read so, or by
	// itself since: hints.
	ahead, read atomic.Uint64
}

// Body returns a body as it was proposed. The caller must not change the bytes. It returns
// raft.ErrLogNotFound if the body is no longer retained. A body that does not match its checksum
// stops the group on this member; another member has an intact copy.
func (g *Group[R, E]) Body(ref BodyRef) ([]byte, error) { return g.bodyOf(ref, &g.bodies) }

// bodyOf is Body through a reader.
func (g *Group[R, E]) bodyOf(ref BodyRef, r *bodyReader) ([]byte, error) {
	key := cacheKey{g.c.Group, ref.Index}
	set := r.cache.get(key)
	if set == nil {
		var err error
		set, _, err = loadBodies(g.c.Storage, g.c.Group, ref.Index)
		if errors.Is(err, errCorrupt) {
			g.fail(fmt.Errorf("body %d of %w", ref.Slot, err))
			return nil, g.stopped()
		}
		if err != nil {
			return nil, err
		}
		g.keep(ref.Index, set, r)
	}
	body, ok := set.body(ref.Slot)
	if !ok {
		return nil, fmt.Errorf("raftfsm: group %s: entry %d has no body %d: %w", g.c.Group, ref.Index, ref.Slot, raft.ErrLogNotFound)
	}
	return body, nil
}

// keep keeps an entry's bodies for who needs them next. The cache that all groups share keeps none of a group that stops:
// another member of its name may have others.
func (g *Group[R, E]) keep(index uint64, set *bodySet, r *bodyReader) {
	shared := r == &g.bodies
	if shared && g.isStopping() {
		return
	}
	r.cache.add(cacheKey{g.c.Group, index}, set)
	g.readAhead(index, r)
	if shared && g.isStopping() {
		r.cache.forget(g.c.Group) // Close may have done so before
	}
}

// readAhead brings the bodies behind an entry that was read into the cache, if they are read in the order of the log: a
// queue from which consumers take what has waited for long. Small entries need one read for many of them then. What was
// read ahead in vain, because others pushed it out of the cache, is not read ahead again.
func (g *Group[R, E]) readAhead(index uint64, r *bodyReader) {
	before := r.read.Load()
	if index > r.ahead.Load() && index <= before {
		return
	}
	r.read.Store(index)
	if index <= before || index-before > inOrder {
		return
	}
	r.ahead.Store(index)
	for _, l := range g.c.Storage.Ahead(index, g.applied.Load()) {
		r.read.Store(l.Index)
		if l.Type != raft.LogCommand {
			continue
		}
		set, err := openBodies(g.c.Group, l.Index, l.Data)
		if err != nil {
			return // who needs a body of it finds out
		}
		if len(set.ends) > 0 {
			r.cache.add(cacheKey{g.c.Group, l.Index}, set)
		}
	}
}
