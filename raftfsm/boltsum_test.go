package raftfsm

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// stored is what a bolt storage has, read in every way that it offers.
type stored struct {
	first, last, term, voteTerm uint64
	candidate                   string
	entries                     []raft.Log
}

func readStored(path string) (all stored, err error) {
	s, err := OpenBolt(path)
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var errs [5]error
	var candidate []byte
	all.first, errs[0] = s.FirstIndex()
	all.last, errs[1] = s.LastIndex()
	all.term, errs[2] = s.GetUint64([]byte(keyTerm))
	all.voteTerm, errs[3] = s.GetUint64([]byte(keyVoteTerm))
	candidate, errs[4] = s.Get([]byte(keyVoteCand))
	all.candidate = string(candidate)
	for index := all.first; index <= all.last; index++ {
		var l raft.Log
		if err := s.GetLog(index, &l); err != nil {
			return all, err
		}
		all.entries = append(all.entries, raft.Log{Index: l.Index, Term: l.Term, Type: l.Type, Data: l.Data, Extensions: l.Extensions})
	}
	return all, errors.Join(errs[:]...)
}

func (s stored) equal(o stored) bool {
	same := slices.EqualFunc(s.entries, o.entries, func(a, b raft.Log) bool {
		return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && string(a.Data) == string(b.Data) && len(a.Extensions) == 0
	})
	return same && s.first == o.first && s.last == o.last && s.term == o.term && s.voteTerm == o.voteTerm && s.candidate == o.candidate
}

// A bit is flipped anywhere in a group's bolt file: the storage holds what it held, or says
// that it is damaged. The process lives.
func TestBoltFlips(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log.db")
	s, err := OpenBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	logs := testLogs(1, 120, 3)
	for _, l := range logs {
		l.Data = make([]byte, 50)
	}
	logs[80].Data = make([]byte, 9000) // on pages of its own
	for _, err := range []error{
		s.SetUint64([]byte(keyTerm), 3), s.SetUint64([]byte(keyVoteTerm), 3), s.Set([]byte(keyVoteCand), []byte("n2")),
		s.StoreLogs(logs), s.DeleteRange(1, 9), s.SetUint64([]byte(keyTerm), 4), s.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := readStored(path)
	if err != nil || want.last != 120 || want.first != 10 {
		t.Fatalf("%+v, %v", want, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// What is behind the last page in use was never written.
	whole = whole[:4096*max(binary.LittleEndian.Uint64(whole[16+40:]), binary.LittleEndian.Uint64(whole[4096+16+40:]))]
	flips, found := 1500, 0
	if testing.Short() {
		flips = 250
	}
	random := rand.New(rand.NewPCG(13, 1))
	for range flips {
		at, bit := random.IntN(len(whole)), byte(1)<<random.IntN(8)
		flipped := slices.Clone(whole)
		flipped[at] ^= bit
		if err := os.WriteFile(path, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readStored(path)
		switch {
		case err != nil && !Damaged(err):
			t.Errorf("byte %d, bit %#x: %v", at, bit, err)
		case err == nil && !got.equal(want):
			t.Errorf("byte %d, bit %#x: %+v", at, bit, got)
		case err != nil:
			found++
		}
	}
	if found < flips/10 {
		t.Errorf("%d of %d flips were found", found, flips)
	}
}

// What a build has written that knows no checksums is read, gets some, and is read by that
// build again.
func TestBoltWithoutChecksums(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	old := func(f func(*raftboltdb.BoltStore) error) {
		t.Helper()
		db, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions(nil), MsgpackUseNewTimeFormat: true})
		if err == nil {
			err = errors.Join(f(db), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	old(func(db *raftboltdb.BoltStore) error {
		return errors.Join(db.StoreLogs(testLogs(1, 5, 7)), db.SetUint64([]byte(keyTerm), 7),
			db.Set([]byte(keyVote), append(binary.LittleEndian.AppendUint64(nil, 7), "n1"...)))
	})
	for range 2 {
		got, err := readStored(path)
		if err != nil || got.term != 7 || got.voteTerm != 7 || got.candidate != "n1" || got.last != 5 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	s, err := OpenBolt(path)
	if err == nil {
		err = errors.Join(s.StoreLogs(testLogs(6, 7, 7)), s.DeleteRange(1, 2), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	old(func(db *raftboltdb.BoltStore) error {
		var l raft.Log
		term, err1 := db.GetUint64([]byte(keyTerm))
		first, err2 := db.GetUint64([]byte(keyFirst))
		vote, err3 := db.Get([]byte(keyVote))
		err4 := db.GetLog(7, &l)
		if term != 7 || first != 3 || len(vote) < 8 || binary.LittleEndian.Uint64(vote) != 7 || string(vote[8:]) == "n1" || l.Index != 7 {
			t.Errorf("term %d, first %d, vote %q, entry %+v", term, first, vote, l)
		}
		return errors.Join(err1, err2, err3, err4)
	})
}
