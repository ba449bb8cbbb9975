package wal

import (
	"iter"

	"github.com/hashicorp/raft"
)

// Bounds of one keep record: spans that it names, and chunks of indexes that are examined while mu is held.
const (
	keepSpans  = 4096
	keepChunks = 256
)

// StoreRetained stores entries from a snapshot outside the log: from then on Entry returns them
// instead of the log's entries at their indexes. It returns when they survive a power cut.
func (g *GroupLog) StoreRetained(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	if err := g.check(entries, false); err != nil {
		return err
	}
	return g.change(true, func() error {
		g.create()
		for _, e := range entries {
			r := entryRecord(KindRetained, g.id, e)
			g.l.drop(g.rt.set(e.Index, g.l.put(&r)))
		}
		return nil
	})
}

// DropRetained forgets every entry of StoreRetained above an index. It is for a snapshot that was
// not installed.
func (g *GroupLog) DropRetained(above uint64) error {
	return g.change(false, func() error {
		window := span{above + 1, ^uint64(0)}
		if above == ^uint64(0) || len(g.rt.spans(window)) == 0 {
			return nil
		}
		g.rt.remove(window, always, g.l.drop)
		g.putKeeps(window, g.epoch)
		return nil
	})
}

// Retain forgets entries up to the index upTo that live does not list: those below the first index
// of the log, and those of StoreRetained. live yields ascending ranges of indexes, both ends
// included, that the snapshot of that index refers to. Entries above upTo stay. Retain may be
// repeated.
func (g *GroupLog) Retain(upTo uint64, live iter.Seq2[uint64, uint64]) error {
	var spans []span
	for first, last := range live {
		if n := len(spans); n > 0 && spans[n-1].hi == first {
			spans[n-1].hi = last + 1
			continue
		}
		spans = append(spans, span{first, last + 1})
	}
	reach := reach{end: min(upTo, ^uint64(0)-1) + 1}
	dead, err := g.hasDead(&reach, spans)
	if !dead || err != nil {
		return err
	}
	for at := uint64(0); at < ^uint64(0); {
		err := g.change(false, func() error {
			window := span{at, g.windowEnd(at, spans)}
			g.filter(window, reach, spans)
			g.putKeeps(window, g.epoch)
			at = window.hi
			return nil
		})
		if err != nil {
			return err
		}
		spans = behind(spans, at)
	}
	g.l.mu.Lock()
	g.dropKeeps() // they go when those that were put above are durable
	g.l.mu.Unlock()
	return nil
}

// reach is where Retain may forget: nothing at end and above, and of the log only what was
// below its first index when Retain began. What the log drops later, or a snapshot brings
// meanwhile, the ranges of Retain do not speak of.
type reach struct{ end, first uint64 }

// hasDead reports whether spans leave out anything, and begins a new generation of keep records
// if they do. It sets the first index of the reach.
func (g *GroupLog) hasDead(reach *reach, spans []span) (dead bool, err error) {
	for at := uint64(0); at < ^uint64(0) && !dead; {
		g.l.mu.Lock()
		if err := g.usable(); err != nil {
			g.l.mu.Unlock()
			return false, err
		}
		if at == 0 {
			reach.first = g.st.first
		}
		window := span{at, g.windowEnd(at, spans)}
		for _, x := range g.touched(window, *reach, spans) {
			c := cursor{spans}
			x.all(g.below(x, window, *reach), func(i uint64, _ loc) bool {
				dead = !c.has(i) || x == &g.ix && g.rt.get(i).size != 0
				return !dead
			})
			if dead {
				g.epoch++
				break
			}
		}
		g.l.mu.Unlock()
		at = window.hi
		spans = behind(spans, at)
	}
	return dead, nil
}

// behind returns the spans that end behind an index.
func behind(spans []span, at uint64) []span {
	for len(spans) > 0 && spans[0].hi <= at {
		spans = spans[1:]
	}
	return spans
}

// below cuts a span of an index to what Retain may forget.
func (g *GroupLog) below(x *index, s span, reach reach) span {
	end := reach.end
	if x == &g.ix {
		end = min(end, reach.first, g.st.first)
	}
	s.hi = max(s.lo, min(s.hi, end))
	return s
}

// touched returns the indexes in which a window may have something to forget: none if one
// of the spans names all of it and no snapshot has brought anything.
func (g *GroupLog) touched(window span, reach reach, spans []span) []*index {
	at := g.rt.find(window.lo)
	brought := at < len(g.rt.chunks) && g.rt.chunks[at].base < window.hi
	below := g.below(&g.ix, window, reach)
	if !brought && len(spans) > 0 && spans[0].lo <= below.lo && below.hi <= spans[0].hi {
		return nil
	}
	return []*index{&g.ix, &g.rt}
}

// windowEnd returns where a record that begins at an index must end.
func (g *GroupLog) windowEnd(at uint64, spans []span) uint64 {
	end := ^uint64(0)
	if len(spans) > keepSpans {
		end = spans[keepSpans].lo
	}
	for _, x := range []*index{&g.ix, &g.rt} {
		if n := x.find(at) + keepChunks; n < len(x.chunks) {
			end = min(end, x.chunks[n].base)
		}
	}
	return end
}

// filter forgets what spans do not name, and what the log has left of an entry that a
// snapshot has brought: its log may have differed from the others'.
func (g *GroupLog) filter(window span, reach reach, spans []span) {
	for _, x := range g.touched(window, reach, spans) {
		c := cursor{spans}
		x.remove(g.below(x, window, reach), func(i uint64) bool {
			return !c.has(i) || x == &g.ix && g.rt.get(i).size != 0
		}, g.l.drop)
	}
}

// putKeeps writes what is there in a window.
func (g *GroupLog) putKeeps(window span, epoch uint64) {
	bound := g.st.first
	left := g.ix.spans(span{window.lo, max(window.lo, min(window.hi, bound))})
	brought := g.rt.spans(window)
	for {
		k := keep{span: window, bound: bound}
		for _, spans := range [][]span{left, brought} {
			if len(spans) > keepSpans {
				k.hi = min(k.hi, spans[keepSpans].lo)
			}
		}
		k.left, left = cut(left, k.hi)
		k.brought, brought = cut(brought, k.hi)
		r := k.record(g.id)
		g.keeps = append(g.keeps, keepRecord{at: g.l.put(&r), epoch: epoch, span: k.span})
		if window.lo = k.hi; window.lo == window.hi {
			return
		}
	}
}

// cut cuts spans in two at an index.
func cut(spans []span, at uint64) (below, rest []span) {
	for n, s := range spans {
		switch {
		case s.lo >= at:
			return spans[:n], spans[n:]
		case s.hi > at:
			rest = append([]span{{at, s.hi}}, spans[n+1:]...)
			return append(spans[:n:n], span{s.lo, at}), rest
		}
	}
	return spans, nil
}

// dropKeeps forgets the keep records of older generations.
func (g *GroupLog) dropKeeps() {
	kept := g.keeps[:0]
	for _, k := range g.keeps {
		if k.epoch == g.epoch {
			kept = append(kept, k)
		} else {
			g.l.drop(k.at)
		}
	}
	g.keeps = kept
}
