package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// node is a data directory with its log in memory, which is opened again as after a restart.
type node struct {
	t    *testing.T
	path string
	mem  *vfs.Mem
	lost []id.GroupID

	dir *datadir.Dir
	*Storage
}

func newNode(t *testing.T) *node {
	n := &node{t: t, path: t.TempDir(), mem: vfs.NewMem()}
	n.open()
	t.Cleanup(n.close)
	return n
}

func (n *node) open() {
	n.t.Helper()
	var err error
	if n.dir, err = datadir.Open(n.path, "c", "n"); err != nil {
		n.t.Fatal(err)
	}
	n.Storage, err = Open(Config{
		Dir: n.dir, LogDir: func(string) (vfs.Dir, error) { return n.mem, nil },
		Failed: func(err error) { n.t.Error(err) }, Lost: func(g id.GroupID, _ error) { n.lost = append(n.lost, g) },
		Pressed: func() {}, Opening: func(int, int) {},
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) close() {
	n.t.Helper()
	if n.dir == nil {
		return
	}
	if err := errors.Join(n.Close(), n.dir.Close()); err != nil {
		n.t.Error(err)
	}
	n.dir = nil
}

func (n *node) restart() {
	n.t.Helper()
	n.close()
	n.open()
}

// append stores an entry of a queue.
func (n *node) append(q id.QueueUID) {
	n.t.Helper()
	s, err := n.Queue(q)
	if err != nil {
		n.t.Fatal(err)
	}
	last, err := s.LastIndex()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := s.StoreLog(&raft.Log{Index: last + 1, Term: 1, Data: []byte("entry")}); err != nil {
		n.t.Fatal(err)
	}
}

// snapshot gives a queue's directory what a snapshot leaves there.
func (n *node) snapshot(q id.QueueUID) {
	n.t.Helper()
	if err := n.dir.MakeQueue(q); err != nil {
		n.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(n.dir.Queue(q), "snapshots", "1-1-1"), 0o700); err != nil {
		n.t.Fatal(err)
	}
	if !datadir.HasSnapshot(n.dir.Queue(q)) {
		n.t.Fatal("no snapshot is seen there")
	}
}

// A node has something of a queue by its log or by its directory, also after a restart, until it drops the queue.
func TestQueuesOnDisk(t *testing.T) {
	n := newNode(t)
	const logged, filed, both, dropped, never = 1, 3, 2, 4, 9
	for _, q := range []id.QueueUID{logged, both, dropped} {
		n.append(q)
	}
	for _, q := range []id.QueueUID{filed, both, dropped} {
		if err := n.dir.MakeQueue(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.DropQueue(dropped); err != nil {
		t.Fatal(err)
	}
	if err := n.DropQueue(never); err != nil {
		t.Errorf("a queue that has nothing: %v", err)
	}
	for _, when := range []string{"at once", "after a restart"} {
		if got, err := n.Queues(); err != nil || !slices.Equal(got, []id.QueueUID{logged, both, filed}) {
			t.Errorf("%s: %v, %v", when, got, err)
		}
		for q, want := range map[id.QueueUID]bool{logged: true, filed: true, both: true, dropped: false, never: false} {
			if n.HasQueue(q) != want {
				t.Errorf("%s: queue %s: %v", when, q, !want)
			}
		}
		n.restart()
	}
	s, err := n.Queue(dropped)
	if err != nil {
		t.Fatal(err)
	}
	if last, err := s.LastIndex(); err != nil || last != 0 {
		t.Errorf("a dropped queue begins at %d, %v", last, err)
	}
}

// A member that had a snapshot and has nothing in the log has lost entries: it is not opened as if it were new.
func TestLostSegments(t *testing.T) {
	n := newNode(t)
	const whole, fresh, lost = 1, 2, 3
	n.append(whole)
	n.snapshot(whole)
	n.snapshot(lost)
	for q, want := range map[id.QueueUID]error{whole: nil, fresh: nil, lost: wal.ErrLost} {
		_, err := n.Queue(q)
		if !errors.Is(err, want) || Damaged(err) != (want != nil) {
			t.Errorf("queue %s: %v, want %v", q, err, want)
		}
		if want != nil && !strings.Contains(err.Error(), remedyRebuild) {
			t.Errorf("%v does not name the remedy", err)
		}
	}
}

// If the whole log is gone, the error of a member that has only its snapshot left says so.
func TestLostLog(t *testing.T) {
	n := newNode(t)
	const q = 1
	n.append(q)
	n.snapshot(q)
	n.restart() // all of it is durable
	if err := n.dir.SetMark(datadir.Mark{Log: n.Mark()}); err != nil {
		t.Fatal(err)
	}
	n.close()
	segments, err := wal.Segments(n.mem)
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	for _, s := range segments {
		if err := n.mem.Remove(s); err != nil {
			t.Fatal(err)
		}
	}
	n.open()
	if _, err := n.Queue(q); !errors.Is(err, wal.ErrLost) || !strings.Contains(err.Error(), "has no segments") {
		t.Errorf("%v", err)
	}
}

// Only signs that stored things are gone or impossible are damage; others do not ask an operator to rebuild the member.
func TestDamaged(t *testing.T) {
	for _, row := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("no space"), false},
		{wal.ErrClosed, false},
		{fmt.Errorf("queue: %w", wal.ErrLost), true},
		{fmt.Errorf("queue: %w", &wal.CorruptError{}), true},
	} {
		if got := Damaged(row.err); got != row.want {
			t.Errorf("%v: %v", row.err, got)
		}
	}
}

// Dropping a queue while the log closes is no fault: the next start finds the rest by Queues.
func TestDropAfterClose(t *testing.T) {
	n := newNode(t)
	n.append(1)
	if err := n.dir.MakeQueue(1); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := n.DropQueue(1); err != nil {
		t.Errorf("after Close: %v", err)
	}
	if err := n.dir.Close(); err != nil {
		t.Fatal(err)
	}
	n.open()
	if got, err := n.Queues(); err != nil || !slices.Equal(got, []id.QueueUID{1}) {
		t.Errorf("after a restart: %v, %v", got, err)
	}
}
