package wal

import (
	"encoding/binary"
	"errors"

	"github.com/quorate/quorate/id"
)

// state is what a state record holds: all that must survive of a group besides its
// entries, written as a whole, so that term and vote change in one step and only the
// newest record of a group counts.
//
// It also says where the log ends at this place of the stream: of the entries before it,
// those at next and above are dead.
type state struct {
	first, next uint64 // the log is [first, next)
	term        uint64
	voteTerm    uint64
	voteFor     []byte // nil if there was no vote
	lost        bool   // the group must not act here any more
}

// Bits of the flags of a state.
const (
	flagVote = 1 << iota
	flagLost
)

const stateBytes = 17 // next, flags, vote's term

// record returns the state's record: index is first, term is the current term.
func (s *state) record(group id.GroupID, cause Cause) record {
	var flags byte
	if s.voteFor != nil {
		flags |= flagVote
	}
	if s.lost {
		flags |= flagLost
	}
	b := make([]byte, 0, stateBytes+len(s.voteFor))
	b = binary.LittleEndian.AppendUint64(b, s.next)
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint64(b, s.voteTerm)
	b = append(b, s.voteFor...)
	return record{kind: KindState, typ: uint8(cause), group: group, index: s.first, term: s.term, data: b}
}

var errMalformed = errors.New("payload is malformed")

// parseState refuses what the log never writes, so that damage is not taken for a state.
func parseState(r *record) (state, error) {
	b := r.data
	if len(b) < stateBytes {
		return state{}, errMalformed
	}
	s := state{
		first: r.index, term: r.term, next: binary.LittleEndian.Uint64(b),
		voteTerm: binary.LittleEndian.Uint64(b[9:]), lost: b[8]&flagLost != 0,
	}
	if b[8]&^(flagVote|flagLost) != 0 || s.next < s.first || s.first == 0 {
		return state{}, errMalformed
	}
	if b[8]&flagVote != 0 {
		s.voteFor = append([]byte{}, b[stateBytes:]...)
	} else if len(b) > stateBytes {
		return state{}, errMalformed // no state is written so
	}
	return s, nil
}

// span is a range of indexes: lo and up to, without, hi.
type span struct{ lo, hi uint64 }

// keep is what a keep record holds: of the entries before it in the stream with an index
// in [lo, hi), those of the log below bound are dead unless left names them, and those
// that a snapshot brought unless brought does. When it was written, both named what was there, so it only affects
// records that may reappear. They are separate because an index may be in one and dead in the other.
type keep struct {
	span
	bound   uint64
	left    []span
	brought []span
}

// record returns the keep's record: index is lo, term is hi.
func (k *keep) record(group id.GroupID) record {
	b := make([]byte, 0, 12+4*len(k.left)+4*len(k.brought))
	b = binary.LittleEndian.AppendUint64(b, k.bound)
	b = appendSpans(b, k.lo, k.left)
	b = appendSpans(b, k.lo, k.brought)
	return record{kind: KindKeep, group: group, index: k.lo, term: k.hi, data: b}
}

// appendSpans appends how many spans there are, and for each the gap before it and its
// length.
func appendSpans(b []byte, at uint64, spans []span) []byte {
	b = binary.AppendUvarint(b, uint64(len(spans)))
	for _, s := range spans {
		b = binary.AppendUvarint(b, s.lo-at)
		b = binary.AppendUvarint(b, s.hi-s.lo)
		at = s.hi
	}
	return b
}

// parseKeep refuses what the log never writes, so that damage is not taken for a keep.
func parseKeep(r *record) (keep, error) {
	k := keep{span: span{r.index, r.term}}
	if len(r.data) < 8 || k.hi < k.lo {
		return keep{}, errMalformed
	}
	k.bound = binary.LittleEndian.Uint64(r.data)
	var err error
	b := r.data[8:]
	if k.left, b, err = parseSpans(b, k.span); err != nil {
		return keep{}, err
	}
	if k.brought, b, err = parseSpans(b, k.span); err != nil || len(b) > 0 {
		return keep{}, errMalformed
	}
	return k, nil
}

// parseSpans reads spans within bounds.
func parseSpans(b []byte, within span) ([]span, []byte, error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)) { // a span has two bytes at least
		return nil, nil, errMalformed
	}
	b = b[used:]
	var spans []span
	at := within.lo
	for range n {
		gap, used := binary.Uvarint(b)
		if used <= 0 || gap > within.hi-at {
			return nil, nil, errMalformed
		}
		b = b[used:]
		length, used := binary.Uvarint(b)
		if used <= 0 || length == 0 || length > within.hi-at-gap {
			return nil, nil, errMalformed
		}
		b = b[used:]
		spans = append(spans, span{at + gap, at + gap + length})
		at += gap + length
	}
	return spans, b, nil
}

// addIndex extends ascending spans by one index.
func addIndex(spans []span, index uint64) []span {
	if n := len(spans); n > 0 && spans[n-1].hi == index {
		spans[n-1].hi++
		return spans
	}
	return append(spans, span{index, index + 1})
}

// cursor walks along ascending spans as ascending indexes are asked for.
type cursor struct{ spans []span }

// has is asked for rising indexes only.
func (c *cursor) has(index uint64) bool {
	for len(c.spans) > 0 && c.spans[0].hi <= index {
		c.spans = c.spans[1:]
	}
	return len(c.spans) > 0 && c.spans[0].lo <= index
}
