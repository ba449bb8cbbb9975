package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

// Mark is how far this node's logs reached when that was last recorded. It is kept beside the logs, so that a start
// notices when they end before it: what is missing was acknowledged (RE-9). Numbers rise from mark to mark.
type Mark struct {
	Log     wal.Mark
	Catalog raftfsm.Extent // its term, and the last entry that is known to be committed
	Voters  uint64         // of the catalog's group; 0: not known

	number uint64
}

const (
	markFile    = "mark"
	fieldNumber = "number"
	fieldLog    = "log"
	fieldSeg    = "segment"
	fieldOffset = "offset"
	fieldTerm   = "catalog-term"
	fieldLast   = "catalog-last"
	fieldVoters = "catalog-voters"
)

// readMark returns the newest whole mark in a data directory, or the zero mark.
func readMark(path string) (newest Mark) {
	for copyNo := range sealed.Copies {
		r, err := sealed.ReadCopy(path, markFile, copyNo)
		if err != nil {
			continue // torn by the crash, or not there yet: the other copy, or no mark, claims less
		}
		if m, err := parseMark(r); err == nil && m.number > newest.number {
			newest = m
		}
	}
	return newest
}

// parseMark returns all faults at once. Marks of older builds have no voters.
func parseMark(r sealed.Record) (m Mark, err error) {
	read := func(key string, bits int) uint64 {
		n, fault := strconv.ParseUint(r.Get(key), 10, bits)
		err = errors.Join(err, fault)
		return n
	}
	m.number = read(fieldNumber, 64)
	m.Log = wal.Mark{Log: read(fieldLog, 64), Segment: uint32(read(fieldSeg, 32)), Offset: uint32(read(fieldOffset, 32))}
	m.Catalog = raftfsm.Extent{Term: read(fieldTerm, 64), Last: read(fieldLast, 64)}
	if r.Get(fieldVoters) != "" {
		m.Voters = read(fieldVoters, 64)
	}
	return m, err
}

func (m Mark) record() sealed.Record {
	// All marks have one length, so that a copy is written over where it stands.
	text := func(n uint64) string { return fmt.Sprintf("%020d", n) }
	return sealed.Record{}.
		With(fieldNumber, text(m.number)).
		With(fieldLog, text(m.Log.Log)).
		With(fieldSeg, text(uint64(m.Log.Segment))).
		With(fieldOffset, text(uint64(m.Log.Offset))).
		With(fieldTerm, text(m.Catalog.Term)).
		With(fieldLast, text(m.Catalog.Last)).
		With(fieldVoters, text(m.Voters))
}

// write replaces the older copy. One that is there is written over, which takes one sync of
// a block and no change of names: a torn one leaves the other, which says a little less.
func (m Mark) write(path string) error {
	copyNo := int(m.number % sealed.Copies)
	err := sealed.Overwrite(path, markFile, copyNo, m.record())
	if errors.Is(err, fs.ErrNotExist) {
		return sealed.Write(path, markFile, copyNo, m.record())
	}
	return err
}
