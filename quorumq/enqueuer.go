package quorumq

import "slices"

// enqueuer is what a queue remembers about the numbered stream of one node's process (PUB-6), so
// that a repeat gets the same answer as the original.
//
// Invariants, see check: all numbers below next are decided. Those in refused, ascending, were
// refused; they are forgotten when the enqueuer confirms that it has their answers.
type enqueuer struct {
	next    Seq
	refused []Seq
}

// trim forgets refusals whose answers the enqueuer has.
func (e *enqueuer) trim(answered Seq) {
	if len(e.refused) == 0 || e.refused[0] > answered {
		return
	}
	i, found := slices.BinarySearch(e.refused, answered)
	if found {
		i++
	}
	e.refused = append(e.refused[:0], e.refused[i:]...)
}

// refuses reports whether a decided number was refused.
func (e *enqueuer) refuses(seq Seq) bool {
	_, found := slices.BinarySearch(e.refused, seq)
	return found
}

// putRefused writes the refused numbers as differences.
func (e *enqueuer) putRefused(b []byte) []byte {
	b = putU(b, uint64(len(e.refused)))
	last := Seq(0)
	for _, s := range e.refused {
		b = putU(b, uint64(s-last))
		last = s
	}
	return b
}

// restoreRefused reads them from a snapshot.
func (e *enqueuer) restoreRefused(r *reader) {
	seq := Seq(0)
	for range r.count(1) {
		more := Seq(r.u())
		r.check(more > 0 && seq+more > seq, errUnordered)
		seq += more
		e.refused = append(e.refused, seq)
	}
}

// check reports whether the refused numbers ascend and are decided.
func (e *enqueuer) check() bool {
	for i, s := range e.refused {
		if s >= e.next || i > 0 && e.refused[i-1] >= s {
			return false
		}
	}
	return true
}
