package session

import (
	"slices"

	"github.com/quorate/quorate/quorumq"
)

// idSet is a set of message ids as ascending ranges. Deliveries come in order, so one range holds
// most of them.
type idSet struct {
	ranges []quorumq.MsgIDRange
	count  int
}

func (s *idSet) len() int { return s.count }

// add adds an id above all others.
func (s *idSet) add(m quorumq.MsgID) {
	s.count++
	if n := len(s.ranges); n > 0 && s.ranges[n-1].Last+1 == m {
		s.ranges[n-1].Last = m
		return
	}
	s.ranges = append(s.ranges, quorumq.MsgIDRange{First: m, Last: m})
}

// remove removes all ids of r, and calls removed with those that were there, as ascending ranges.
func (s *idSet) remove(r quorumq.MsgIDRange, removed func(quorumq.MsgIDRange)) {
	i, _ := slices.BinarySearchFunc(s.ranges, r.First, func(have quorumq.MsgIDRange, first quorumq.MsgID) int {
		if have.Last < first {
			return -1
		}
		return 1
	})
	for i < len(s.ranges) && s.ranges[i].First <= r.Last {
		have := s.ranges[i]
		cut := quorumq.MsgIDRange{First: max(have.First, r.First), Last: min(have.Last, r.Last)}
		s.count -= int(cut.Last-cut.First) + 1
		left, right := cut.First > have.First, cut.Last < have.Last
		switch {
		case left && right:
			s.ranges[i].Last = cut.First - 1
			s.ranges = slices.Insert(s.ranges, i+1, quorumq.MsgIDRange{First: cut.Last + 1, Last: have.Last})
			i += 2
		case left:
			s.ranges[i].Last = cut.First - 1
			i++
		case right:
			s.ranges[i].First = cut.Last + 1
		default:
			s.ranges = slices.Delete(s.ranges, i, i+1)
		}
		removed(cut)
		if right {
			return
		}
	}
}
