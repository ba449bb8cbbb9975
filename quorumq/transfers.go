package quorumq

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/id"
)

// transfers is what a queue remembers about dead letters from other queues, so that each is stored
// once, however often it arrives (DL-25).
//
// Invariant: a source is in the map from its first dead letter or watermark on.
type transfers map[id.QueueUID]*source

// MaxSourceRanges limits the ranges of numbers that a queue remembers of one source, which take 16 MiB then.
const MaxSourceRanges = 1 << 20

// source is what the queue remembers about the dead letters of one other queue. A dead letter that waits at the source for
// another target keeps all ranges behind it.
//
// Invariant: the ranges ascend, are disjoint, do not touch one another and begin above settled.
type source struct {
	settled Seq        // the source never again sends a number up to here
	stored  []SeqRange // numbers above settled that are stored here
}

// of returns the source with this uid, and creates it if there is none.
func (t transfers) of(uid id.QueueUID) *source {
	s := t[uid]
	if s == nil {
		s = new(source)
		t[uid] = s
	}
	return s
}

// leave removes a source about which there is nothing to remember.
func (t transfers) leave(uid id.QueueUID) {
	if s := t[uid]; len(s.stored) == 0 && s.settled == 0 {
		delete(t, uid)
	}
}

// settle forgets the numbers that the source has settled.
func (s *source) settle(to Seq) {
	if to <= s.settled {
		return
	}
	s.settled = to
	n := 0
	for n < len(s.stored) && s.stored[n].Last <= to {
		n++
	}
	s.stored = append(s.stored[:0], s.stored[n:]...)
	if len(s.stored) > 0 && s.stored[0].First <= to {
		s.stored[0].First = to + 1
	}
}

// search returns the first range that ends at seq or later.
func (s *source) search(seq Seq) int {
	if n := len(s.stored); n == 0 || s.stored[n-1].Last < seq {
		return n
	}
	i, _ := slices.BinarySearchFunc(s.stored, seq, func(r SeqRange, seq Seq) int {
		if r.Last < seq {
			return -1
		}
		return 1
	})
	return i
}

// has reports whether the dead letter with a number is stored or settled.
func (s *source) has(seq Seq) bool {
	if seq <= s.settled {
		return true
	}
	i := s.search(seq)
	return i < len(s.stored) && s.stored[i].First <= seq
}

// exceeds reports whether a number that is not in the set would make more ranges than there may be. The lowest that the
// source may still send never does: before it is stored nothing is settled, and no range goes.
func (s *source) exceeds(seq Seq) bool {
	if len(s.stored) < MaxSourceRanges || seq == s.settled+1 {
		return false
	}
	i := s.search(seq)
	joinsLeft := i > 0 && s.stored[i-1].Last+1 == seq
	joinsRight := i < len(s.stored) && s.stored[i].First-1 == seq
	return !joinsLeft && !joinsRight
}

// add adds a number that is not in the set.
func (s *source) add(seq Seq) {
	i := s.search(seq)
	joinsLeft := i > 0 && s.stored[i-1].Last+1 == seq
	joinsRight := i < len(s.stored) && s.stored[i].First-1 == seq
	switch {
	case joinsLeft && joinsRight:
		s.stored[i-1].Last = s.stored[i].Last
		s.stored = slices.Delete(s.stored, i, i+1)
	case joinsLeft:
		s.stored[i-1].Last = seq
	case joinsRight:
		s.stored[i].First = seq
	default:
		s.stored = slices.Insert(s.stored, i, SeqRange{First: seq, Last: seq})
	}
}

// ranges returns how many ranges of numbers are remembered, of all sources.
func (t transfers) ranges() (n uint64) {
	for _, s := range t {
		n += uint64(len(s.stored))
	}
	return n
}

// put writes all sources, in ascending order.
func (t transfers) put(b []byte) []byte {
	b = putU(b, uint64(len(t)))
	for _, uid := range slices.Sorted(maps.Keys(t)) {
		s := t[uid]
		b = putU(putU(b, uint64(uid)), uint64(s.settled))
		b = putU(b, uint64(len(s.stored)))
		last := s.settled
		for _, r := range s.stored {
			b = putU(putU(b, uint64(r.First-last)), uint64(r.Last-r.First))
			last = r.Last
		}
	}
	return b
}

// restore reads the sources from a snapshot.
func (t transfers) restore(r *reader) {
	last := id.QueueUID(0)
	for i := range r.count(3) {
		uid := id.QueueUID(r.u())
		r.check(i == 0 || uid > last, errUnordered)
		s := &source{settled: Seq(r.u())}
		seq := s.settled
		for range r.count(2) {
			skip, more := Seq(r.u()), Seq(r.u())
			r.check(skip > 0 && seq+skip > seq && seq+skip+more >= seq+skip, errUnordered)
			s.stored = append(s.stored, SeqRange{First: seq + skip, Last: seq + skip + more})
			seq += skip + more
		}
		r.check(s.settled > 0 || len(s.stored) > 0, errZero)
		if r.err != nil {
			return
		}
		t[uid] = s
		last = uid
	}
}

// check returns an inconsistency, if there is one.
func (t transfers) check() error {
	for uid, s := range t {
		last := s.settled
		for _, r := range s.stored {
			if r.First <= last || r.Last < r.First || last > 0 && last != s.settled && r.First == last+1 {
				return inv("source %v stores %v above %d", uid, s.stored, s.settled)
			}
			last = r.Last
		}
	}
	return nil
}
