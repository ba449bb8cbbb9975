package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// Queue returns the directory of a queue's member, whether it is there or not.
func (d *Dir) Queue(q id.QueueUID) string { return filepath.Join(d.path, QueuesDir, q.String()) }

// Queues returns the queues of which something is stored.
func (d *Dir) Queues() ([]id.QueueUID, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, QueuesDir))
	if err != nil {
		return nil, fmt.Errorf("cluster: reading the queues' directory: %w", err)
	}
	var uids []id.QueueUID
	for _, e := range entries {
		text, named := strings.CutPrefix(e.Name(), "q")
		n, err := strconv.ParseUint(text, 10, 64)
		if named && err == nil {
			uids = append(uids, id.QueueUID(n))
		}
	}
	return uids, nil
}

// HasQueue reports whether something of a queue is stored.
func (d *Dir) HasQueue(q id.QueueUID) bool {
	return exists(d.Queue(q))
}

// RemoveQueue deletes what a queue has on disk. UIDs are never used again, so that it
// does no harm if a crash brings a part of it back.
func (d *Dir) RemoveQueue(q id.QueueUID) error {
	if !d.HasQueue(q) {
		return nil
	}
	if err := os.RemoveAll(d.Queue(q)); err != nil {
		return fmt.Errorf("cluster: deleting the files of queue %s: %w", q, err)
	}
	return sealed.SyncDir(filepath.Join(d.path, QueuesDir))
}

// joinedFile names the change by which a member began to join its group. What is in the
// queue's directory beside it is of that membership and of none before.
const (
	joinedFile  = "joined"
	fieldChange = "change"
)

// Joined returns the change to which a member's directory belongs, 0 if it belongs to none, and the base with which
// the member began to join, the zero value if it had none, as with older builds. An error means that both are
// unknown: no copy of the file is whole, or none can be read.
func (d *Dir) Joined(q id.QueueUID) (change uint64, base raftfsm.Base, err error) {
	r, err := sealed.Read(d.Queue(q), joinedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, raftfsm.Base{}, nil
	}
	if err != nil {
		return 0, raftfsm.Base{}, err
	}
	change, err = strconv.ParseUint(r.Get(fieldChange), 10, 64)
	base, err2 := parseBase(r)
	if err := errors.Join(err, err2); err != nil {
		return 0, raftfsm.Base{}, fmt.Errorf("%w: file %q in %q: %w", sealed.ErrDamaged, joinedFile, d.Queue(q), err)
	}
	return change, base, nil
}

// SetJoined records the change to which a member's directory belongs, and the base with which it joins. It creates
// the directory if necessary.
func (d *Dir) SetJoined(q id.QueueUID, change uint64, base raftfsm.Base) error {
	if err := d.MakeQueue(q); err != nil {
		return err
	}
	return sealed.WriteTwice(d.Queue(q), joinedFile, addBase(sealed.Record{}.With(fieldChange, strconv.FormatUint(change, 10)), base))
}

// MakeQueue makes the directory of a queue that has files. Those in the shared log have
// none before their first snapshot.
func (d *Dir) MakeQueue(q id.QueueUID) error {
	dir := d.Queue(q)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("making a queue's directory: %w", err)
	}
	return sealed.SyncDir(filepath.Dir(dir))
}

// HasSnapshot reports whether a member's directory has a snapshot.
func HasSnapshot(dir string) bool {
	found, err := os.ReadDir(filepath.Join(dir, SnapshotsDir))
	return err == nil && len(found) > 0
}

// exists reports whether something is at a path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
