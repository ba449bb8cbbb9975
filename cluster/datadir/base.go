package datadir

import (
	"errors"
	"strconv"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/raftfsm"
)

// Fields of a member's base, in the record that says from when on the member is what it is.
const (
	fieldBaseTerm  = "base-term"
	fieldBaseIndex = "base-index"
)

// addBase adds a base to a record, unless it is zero. Older builds ignore its fields.
func addBase(r sealed.Record, b raftfsm.Base) sealed.Record {
	if b == (raftfsm.Base{}) {
		return r
	}
	return r.With(fieldBaseTerm, strconv.FormatUint(b.Term, 10)).With(fieldBaseIndex, strconv.FormatUint(b.Index, 10))
}

// parseBase reads what addBase has added.
func parseBase(r sealed.Record) (raftfsm.Base, error) {
	if r.Get(fieldBaseTerm) == "" && r.Get(fieldBaseIndex) == "" {
		return raftfsm.Base{}, nil
	}
	term, err := strconv.ParseUint(r.Get(fieldBaseTerm), 10, 64)
	index, err2 := strconv.ParseUint(r.Get(fieldBaseIndex), 10, 64)
	return raftfsm.Base{Term: term, Index: index}, errors.Join(err, err2)
}
