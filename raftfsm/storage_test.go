package raftfsm

import (
	"errors"
	"os"
	"testing"

	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// openLog opens a log for a group alone, in a directory that it makes.
func openLog(path string) (Storage, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	dir, err := vfs.OS(path)
	if err != nil {
		return nil, err
	}
	l, err := wal.Open(dir, wal.Config{SegmentBytes: 1 << 20, LowBytes: -1})
	if err != nil {
		return nil, err
	}
	g, err := l.Group(testGroup)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return logOfOne{g, l}, nil
}

// testStorage opens a log until the test ends.
func testStorage(t testing.TB) Storage {
	t.Helper()
	s, err := openLog(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// logOfOne closes the log with its only group.
type logOfOne struct {
	Storage
	log *wal.Log
}

// IsMonotonic implements raft.MonotonicLogStore.
func (logOfOne) IsMonotonic() bool { return true }

func (s logOfOne) Close() error { return errors.Join(s.Storage.Close(), s.log.Close()) }
