package raftfsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

func testLogs(from, to, term uint64) []*raft.Log {
	var logs []*raft.Log
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: fmt.Appendf(nil, "entry %d of term %d", i, term)})
	}
	return logs
}

type boltFixture struct {
	t    *testing.T
	path string
	*bolt
}

func newBoltFixture(t *testing.T) *boltFixture {
	t.Helper()
	f := &boltFixture{t: t, path: filepath.Join(t.TempDir(), "raft.db")}
	f.reopen()
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func (f *boltFixture) reopen() {
	f.t.Helper()
	if f.bolt != nil {
		f.ok(f.Close())
	}
	var err error
	f.bolt, err = openBolt(f.path, nil)
	f.ok(err)
}

func (f *boltFixture) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// holds checks the bounds of the log and which entries GetLog and Entry find, now and
// after opening the file again.
func (f *boltFixture) holds(first, last uint64, entries ...uint64) {
	f.t.Helper()
	for range 2 {
		gotFirst, err1 := f.FirstIndex()
		gotLast, err2 := f.LastIndex()
		f.ok(errors.Join(err1, err2))
		if gotFirst != first || gotLast != last {
			f.t.Fatalf("log is %d..%d instead of %d..%d", gotFirst, gotLast, first, last)
		}
		for i := uint64(1); i < 3000; i++ {
			var l raft.Log
			in := first > 0 && i >= first && i <= last
			if err := f.GetLog(i, &l); in && (err != nil || l.Index != i) || !in && !errors.Is(err, raft.ErrLogNotFound) {
				f.t.Fatalf("GetLog(%d): %v", i, err)
			}
			in = in || slices.Contains(entries, i)
			err := f.Entry(i, &l)
			if in && (err != nil || l.Index != i || !strings.HasPrefix(string(l.Data), fmt.Sprintf("entry %d ", i))) ||
				!in && !errors.Is(err, raft.ErrLogNotFound) {
				f.t.Fatalf("Entry(%d): %v %q, expected: %v", i, err, l.Data, in)
			}
		}
		f.reopen()
	}
}

func TestBoltDeletedPrefixStaysUntilRetain(t *testing.T) {
	f := newBoltFixture(t)
	f.holds(0, 0)
	f.ok(f.StoreLogs(testLogs(1, 2500, 1)))
	f.ok(f.DeleteRange(1, 2400))
	var all []uint64
	for i := uint64(1); i <= 2400; i++ {
		all = append(all, i)
	}
	f.holds(2401, 2500, all...)
	f.ok(f.Retain(1200, none))
	f.holds(2401, 2500, all[1200:]...)
	f.ok(f.Retain(^uint64(0), none))
	f.holds(2401, 2500)
}

func TestBoltTruncatedSuffixIsGone(t *testing.T) {
	f := newBoltFixture(t)
	f.ok(f.StoreLogs(testLogs(1, 2500, 1)))
	f.ok(f.DeleteRange(11, 2500))
	f.holds(1, 10)
	f.ok(f.StoreLogs(testLogs(11, 12, 2)))
	var l raft.Log
	f.ok(f.GetLog(11, &l))
	if string(l.Data) != "entry 11 of term 2" {
		t.Errorf("entry is %q", l.Data)
	}
	if err := f.DeleteRange(5, 6); err == nil {
		t.Error("a hole was made in the log")
	}
}

// After a snapshot from the leader raft deletes the whole log and continues behind it.
func TestBoltBeginsAnewBehindASnapshot(t *testing.T) {
	f := newBoltFixture(t)
	f.ok(f.StoreLogs(testLogs(1, 5, 1)))
	f.ok(f.DeleteRange(1, 5))
	f.holds(0, 0, 1, 2, 3, 4, 5)
	f.ok(f.StoreLogs(testLogs(101, 102, 2)))
	f.holds(101, 102, 1, 2, 3, 4, 5)
	f.ok(f.Retain(60, none))
	f.holds(101, 102)
	// The same without the deletion, as after a crash in between.
	f.ok(f.StoreLogs(testLogs(200, 201, 3)))
	f.holds(200, 201, 101, 102)
}

// Another leader may replace all that the log has behind a snapshot, and with fewer
// entries: none of the old ones comes back.
func TestBoltReplacedFromTheFirstEntry(t *testing.T) {
	f := newBoltFixture(t)
	f.ok(f.StoreLogs(testLogs(1, 5, 1)))
	f.ok(f.DeleteRange(1, 5))
	f.ok(f.StoreLogs(testLogs(101, 110, 2)))
	f.ok(f.DeleteRange(101, 110))
	f.ok(f.Retain(5, none))
	f.ok(f.StoreLogs(testLogs(101, 103, 3)))
	f.holds(101, 103)
	var l raft.Log
	f.ok(f.GetLog(101, &l))
	if l.Term != 3 {
		t.Errorf("entry 101 is of term %d", l.Term)
	}
	// The same when the first index had moved beyond them.
	f.ok(f.DeleteRange(101, 102))
	f.ok(f.DeleteRange(103, 103))
	f.ok(f.StoreLogs(testLogs(102, 102, 4)))
	f.holds(102, 102, 101)
	if err := f.StoreLogs(testLogs(102, 102, 5)); err == nil {
		t.Error("an entry was replaced without a deletion")
	}
}

func TestBoltVoteIsOneRecord(t *testing.T) {
	f := newBoltFixture(t)
	if _, err := f.GetUint64([]byte(keyTerm)); err == nil || err.Error() != "not found" {
		t.Errorf("term of an empty file: %v", err)
	}
	f.ok(f.SetUint64([]byte(keyTerm), 5))
	f.ok(f.SetUint64([]byte(keyVoteTerm), 5))
	f.ok(f.Set([]byte(keyVoteCand), []byte("n1")))
	f.ok(f.SetUint64([]byte(keyTerm), 6))
	f.ok(f.SetUint64([]byte(keyVoteTerm), 6)) // a crash before the candidate is stored
	f.reopen()
	vote := func(term uint64, cand string) {
		t.Helper()
		gotTerm, err1 := f.GetUint64([]byte(keyVoteTerm))
		gotCand, err2 := f.Get([]byte(keyVoteCand))
		f.ok(errors.Join(err1, err2))
		if gotTerm != term || string(gotCand) != cand {
			t.Errorf("vote in term %d for %q instead of term %d for %q", gotTerm, gotCand, term, cand)
		}
	}
	vote(5, "n1")
	if term, err := f.GetUint64([]byte(keyTerm)); err != nil || term != 6 {
		t.Errorf("term %d, %v", term, err)
	}
	f.ok(f.SetUint64([]byte(keyVoteTerm), 6))
	f.ok(f.Set([]byte(keyVoteCand), []byte("n2")))
	vote(6, "n2")
	f.reopen()
	vote(6, "n2")
}

func TestBoltWritesNothingThatChangesNothing(t *testing.T) {
	f := newBoltFixture(t)
	f.ok(f.SetUint64([]byte(keyTerm), 5))
	f.ok(f.SetUint64([]byte(keyVoteTerm), 5))
	f.ok(f.Set([]byte(keyVoteCand), []byte("n1")))
	f.ok(f.Close())
	before, err := os.ReadFile(f.path)
	f.ok(err)
	f.bolt = nil
	f.reopen()
	f.ok(f.SetUint64([]byte(keyTerm), 5))
	f.ok(f.SetUint64([]byte(keyVoteTerm), 5))
	f.ok(f.Set([]byte(keyVoteCand), []byte("n1")))
	f.ok(f.Close())
	after, err := os.ReadFile(f.path)
	f.ok(err)
	// Opening commits an empty transaction; three more writes would go further.
	txid := func(b []byte) uint64 { return max(metaTxid(b[:4096]), metaTxid(b[4096:8192])) }
	if d := txid(after) - txid(before); d > 1 {
		t.Errorf("%d transactions instead of the one of opening", d)
	}
	f.bolt = nil
	f.reopen()
}

// After a failed write nothing is written, whatever it is.
func TestBoltStaysRefusingAfterAFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	var file *os.File
	s, err := openBolt(path, func(name string, flag int, mode os.FileMode) (*os.File, error) {
		var err error
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StoreLogs(testLogs(1, 3, 1)); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil { // the disk goes away
		t.Fatal(err)
	}
	first := s.StoreLogs(testLogs(4, 4, 1))
	if first == nil || !strings.Contains(first.Error(), path) {
		t.Fatalf("error %v does not name %s", first, path)
	}
	for name, err := range map[string]error{
		"StoreLogs": s.StoreLogs(testLogs(4, 4, 1)), "DeleteRange": s.DeleteRange(1, 1),
		"Set": s.Set([]byte("k"), nil), "SetUint64": s.SetUint64([]byte(keyTerm), 9),
		"Retain": s.Retain(^uint64(0), none),
	} {
		if err == nil || err.Error() != first.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
	var l raft.Log
	if err := s.GetLog(3, &l); err != nil {
		t.Errorf("reading: %v", err)
	}
	_ = s.Close()
}

func TestBoltLockIsExplained(t *testing.T) {
	t.Parallel()
	f := newBoltFixture(t)
	_, err := OpenBolt(f.path)
	if err == nil || !strings.Contains(err.Error(), "locked by another process") || !strings.Contains(err.Error(), f.path) {
		t.Errorf("second open: %v", err)
	}
}

func TestBoltDamagedFileIsExplained(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("nonsense", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBolt(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("open: %v", err)
	}
}

func TestBoltMissingEntryIsRefusedAtOpen(t *testing.T) {
	f := newBoltFixture(t)
	f.ok(f.StoreLogs(testLogs(1, 5, 1)))
	f.ok(f.Close())
	db, err := raftboltdb.NewBoltStore(f.path)
	f.ok(err)
	f.ok(errors.Join(db.DeleteRange(4, 4), db.Close()))
	if _, err := OpenBolt(f.path); !errors.Is(err, errCorrupt) || !strings.Contains(err.Error(), "entry 4") {
		t.Errorf("open: %v", err)
	}
	f.bolt = nil
	f.ok(os.Remove(f.path))
	f.reopen()
}

// Bodies that somebody needs beyond the log are refused, before anything is dropped.
func TestBoltKeepsNoBodies(t *testing.T) {
	f := newBoltFixture(t)
	f.ok(f.StoreLogs(testLogs(1, 5, 1)))
	f.ok(f.DeleteRange(1, 3))
	if err := f.StoreRetained(testLogs(6, 6, 1)); !errors.Is(err, errNoBodies) {
		t.Errorf("an entry of a snapshot: %v", err)
	}
	if err := f.Retain(3, singles(slices.Values([]uint64{2}))); !errors.Is(err, errNoBodies) {
		t.Errorf("a live entry: %v", err)
	}
	f.ok(errors.Join(f.StoreRetained(nil), f.DropRetained(0)))
	f.holds(4, 5, 1, 2, 3)
}

// metaTxid reads the transaction of a bolt meta page: page head 16 bytes, then magic,
// version, page size, flags, root (16), freelist, high water mark and the transaction.
func metaTxid(page []byte) uint64 { return binary.LittleEndian.Uint64(page[16+48:]) }

// none yields nothing: no entry has bodies that are needed.
func none(func(first, last uint64) bool) {}

// singles yields indexes as ranges of one.
func singles(indexes iter.Seq[uint64]) iter.Seq2[uint64, uint64] {
	return func(yield func(first, last uint64) bool) {
		for i := range indexes {
			if !yield(i, i) {
				return
			}
		}
	}
}

// A write that failed is reported as such, and never tried again.
func TestBoltWriteFails(t *testing.T) {
	s, err := openBolt(filepath.Join(t.TempDir(), "log.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.Close(); err != nil { // as good as a disk that takes nothing
		t.Fatal(err)
	}
	for range 2 {
		if err := s.StoreLog(&raft.Log{Index: 1, Term: 1}); !errors.Is(err, ErrWriteFailed) {
			t.Errorf("stored: %v", err)
		}
	}
}
