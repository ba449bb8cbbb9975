package quorumq

import "slices"

// source is what the queue remembers of the dead letters of one other queue (DL-25).
type source struct {
	settled Seq        // the source never again sends a number up to here
	stored  []SeqRange // numbers above settled that are stored here; ascending, disjoint, not adjacent
}

// applyTransfer stores the letters that are new. Refused ones are not remembered: the
// source keeps them and comes again.
func (q *Queue) applyTransfer(m Meta, c *Transfer) {
	s := q.sources[c.Source]
	if s == nil {
		s = new(source)
		q.sources[c.Source] = s
	}
	s.settle(c.Settled)
	for i := range c.Letters {
		l := &c.Letters[i]
		body := BodyRef{Index: m.Index, Slot: m.FirstSlot + uint32(i)}
		switch {
		case l.Seq <= s.settled || s.has(l.Seq):
			q.stats.dedup++
			q.release(body)
		case l.Size == VoidSize:
			q.release(body)
		case q.refuses() && q.full(l.Size):
			// LEN-6. Not dead-lettered under reject-publish-dlx either: each retry would
			// make one more.
			q.stats.refused++
			q.refused = append(q.refused, l.Seq)
			q.release(body)
		default:
			s.add(l.Seq)
			q.reply.Stored++
			q.admit(body, &l.NewMessage)
		}
	}
	if len(s.stored) == 0 && s.settled == 0 {
		delete(q.sources, c.Source)
	}
	slices.Sort(q.refused)
	q.reply.Refused = q.refused
}

// settle forgets what the source has settled.
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

func (s *source) has(seq Seq) bool {
	i := s.search(seq)
	return i < len(s.stored) && s.stored[i].First <= seq
}

// add adds a number that is not there.
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
