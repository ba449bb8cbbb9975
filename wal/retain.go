package wal

import (
	"iter"

	"github.com/hashicorp/raft"
)

// Bounds of one keep record: spans that it names, and chunks of indexes that are looked at
// while mu is held.
const (
	keepSpans  = 4096
	keepChunks = 256
)

// StoreRetained stores entries that a snapshot brings, outside the log: Entry finds them
// once they are below the first index. It returns when they survive a power cut.
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

// Retain forgets every entry below the first index that live does not name, and every
// entry of StoreRetained likewise. Live yields ascending ranges, both ends included. It may
// be repeated; StoreRetained of the same group must not run at the same time.
func (g *GroupLog) Retain(live iter.Seq2[uint64, uint64]) error {
	var spans []span
	for first, last := range live {
		if n := len(spans); n > 0 && spans[n-1].hi == first {
			spans[n-1].hi = last + 1
			continue
		}
		spans = append(spans, span{first, last + 1})
	}
	dead, bound, err := g.hasDead(spans)
	if !dead || err != nil {
		return err
	}
	for at := uint64(0); at < ^uint64(0); {
		err := g.change(false, func() error {
			window := span{at, g.windowEnd(at, spans)}
			g.filter(window, bound, spans)
			g.putKeeps(window, bound, g.epoch)
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

// hasDead says whether spans leave out anything, and begins a new generation of keep records
// if they do. Below bound, the first index of now, the log's entries may be forgotten: what
// the log drops later, spans do not speak of.
func (g *GroupLog) hasDead(spans []span) (dead bool, bound uint64, err error) {
	for at := uint64(0); at < ^uint64(0) && !dead; {
		g.l.mu.Lock()
		if err := g.usable(); err != nil {
			g.l.mu.Unlock()
			return false, 0, err
		}
		if at == 0 {
			bound = g.st.first
		}
		window := span{at, g.windowEnd(at, spans)}
		for _, x := range g.touched(window, bound, spans) {
			c := cursor{spans}
			x.all(g.below(x, window, bound), func(i uint64, _ loc) bool {
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
	return dead, bound, nil
}

// behind returns the spans that end behind an index.
func behind(spans []span, at uint64) []span {
	for len(spans) > 0 && spans[0].hi <= at {
		spans = spans[1:]
	}
	return spans
}

// below cuts a span to what Retain may forget: of the log only what is below bound.
func (g *GroupLog) below(x *index, s span, bound uint64) span {
	if x == &g.ix {
		s.hi = max(s.lo, min(s.hi, bound, g.st.first))
	}
	return s
}

// touched returns the indexes in which a window may have something to forget: none if one
// of the spans names all of it and no snapshot has brought anything.
func (g *GroupLog) touched(window span, bound uint64, spans []span) []*index {
	at := g.rt.find(window.lo)
	brought := at < len(g.rt.chunks) && g.rt.chunks[at].base < window.hi
	below := g.below(&g.ix, window, bound)
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
func (g *GroupLog) filter(window span, bound uint64, spans []span) {
	for _, x := range g.touched(window, bound, spans) {
		c := cursor{spans}
		x.remove(g.below(x, window, bound), func(i uint64) bool {
			return !c.has(i) || x == &g.ix && g.rt.get(i).size != 0
		}, g.l.drop)
	}
}

// putKeeps writes what is there in a window.
func (g *GroupLog) putKeeps(window span, bound, epoch uint64) {
	bound = min(bound, g.st.first)
	left, brought := g.ix.spans(g.below(&g.ix, window, bound)), g.rt.spans(window)
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
