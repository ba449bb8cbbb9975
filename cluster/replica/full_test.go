package replica

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
)

// fakeDisk is what a disk.Watch looks at: a log under the given pressure, on a node without peers.
type fakeDisk struct {
	h        *testHost
	pressure wal.Pressure
}

func (d *fakeDisk) Space() wal.Space                            { return wal.Space{Pressure: d.pressure} }
func (d *fakeDisk) Stalled() (age, limit time.Duration)         { return 0, time.Hour }
func (d *fakeDisk) Short() bool                                 { return false }
func (d *fakeDisk) Hung() time.Duration                         { return 0 }
func (d *fakeDisk) Connected(id.NodeID) (id.Epoch, bool)        { return 0, false }
func (d *fakeDisk) Client(id.NodeID) (nodev1.NodeClient, error) { return nil, errors.New("no peers") }
func (d *fakeDisk) Leniency() time.Duration                     { return 0 }
func (d *fakeDisk) WriteAge() time.Duration                     { return 0 }
func (d *fakeDisk) Stopped() int                                { return 0 }
func (d *fakeDisk) FloorPassed()                                { d.h.WakeReconcile() }
func (d *fakeDisk) HangsChanged(bool)                           {}

// press has the host's disk be under a pressure.
func (h *testHost) press(p wal.Pressure) {
	d := &fakeDisk{h, p}
	w := disk.Watch{Board: h.cfg.Disks, Log: d, Transport: d, Groups: d, Every: time.Hour, Hang: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	w.Look()
}

// RE-10: a member that is moved off a node whose disk is full is deleted there, so that there is room again. It is closed like all
// others, but its files are not forgotten.
func TestMovedOffFullDisk(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid, stays := h.declare("moves"), h.declare("stays")
	h.press(wal.PressureFloor)
	h.poll("members are stopped", func() error {
		if len(h.Members()) > 0 {
			return errWaiting
		}
		return nil
	})
	h.mustPropose(&catalog.RegisterNode{ID: "b", Address: "127.0.0.1:2", Epoch: 1, Store: "b", Fresh: true, FirstEpoch: 1})
	change := h.mustPropose(&catalog.BeginMemberChange{UID: uid, Join: "b", Leave: "a"}).Index
	for _, step := range []catalog.MemberStep{catalog.StepJoined, catalog.StepLeft} {
		h.mustPropose(&catalog.CompleteMemberStep{UID: uid, Change: change, Step: step})
	}
	h.poll("its files are deleted", func() error {
		if h.storage.HasQueue(uid) {
			return errWaiting
		}
		return nil
	})
	if !h.storage.HasQueue(stays) || h.Member(stays) != nil {
		t.Error("the member of the other queue is not as it was")
	}
	h.press(wal.PressureNone)
	h.led(stays)
}

// hides makes a member unreachable, as one that begins to hibernate, on a disk that is full or not.
func (h *testHost) hides(uid id.QueueUID, full bool) *Member {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queues[uid]
	delete(h.queues, uid)
	h.asleep[uid], h.full = &asleep{}, full
	return q
}

// A member that was to hibernate, and does not, stays closed if all others were closed meanwhile: nothing may write when the
// disk is full.
func TestAwakeAfterOthersClosed(t *testing.T) {
	t.Parallel()
	for _, full := range []bool{false, true} {
		h := newTestHost(t, nil)
		uid := h.declare("q")
		q := h.hides(uid, full)
		h.stayAwake(q)
		if open := h.Member(uid) == q; open == full || (q.Life().Err() == nil) == full || h.sleeper(uid) != nil {
			t.Errorf("full %v: open %v, %v", full, open, q.Life().Err())
		}
	}
}

// What a leader has asked for meanwhile stays, where a queue that hibernated is to be opened because something is due.
func TestDueWhileItOpens(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	h.closeHidden(h.hides(uid, true))
	const at = quorumq.Time(7)
	due := h.cfg.Clock.NowMs() + time.Hour.Milliseconds()
	h.timers.Set(uid, at, due)
	h.expire(uid, 0)
	if gotAt, gotDue := h.timers.At(uid); gotAt != at || gotDue != due {
		t.Errorf("it is woken for %d at %d, want for %d at %d", gotAt, gotDue, at, due)
	}
}

// A queue that has something to do and cannot be opened when that is due, because the disk is full, is opened later.
func TestDueWhileDiskIsFull(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	h.closeHidden(h.hides(uid, true))
	h.expire(uid, 0)
	h.mu.Lock()
	h.full = false
	h.mu.Unlock()
	h.poll("it is opened", func() error {
		if h.Member(uid) == nil {
			return errWaiting
		}
		return nil
	})
}

// damage changes what the log has on disk, and has it find that in a member that is closed.
func (h *testHost) damage(uid id.QueueUID) {
	h.t.Helper()
	h.damages.Store(true)
	g, err := h.storage.Group(uid.Group())
	if err != nil {
		h.t.Fatal(err)
	}
	last, err := g.LastIndex()
	if err != nil {
		h.t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(h.cfg.Dir.Log(), "*.wal"))
	if err != nil || len(files) == 0 {
		h.t.Fatalf("segments %q: %v", files, err)
	}
	for _, name := range files {
		h.flip(name)
	}
	if err := g.GetLog(last, &raft.Log{}); !errors.Is(err, wal.ErrLost) {
		h.t.Fatalf("entry %d is read with the error %v", last, err)
	}
}

// flip changes every byte of the first part of a file.
func (h *testHost) flip(name string) {
	h.t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	b := make([]byte, 64<<10)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		h.t.Fatal(err)
	}
	for i := range b[:n] {
		b[i] ^= 0xff
	}
	_, err = f.WriteAt(b[:n], 0)
	if err := errors.Join(err, f.Close()); err != nil {
		h.t.Fatal(err)
	}
}

// Damage that the log finds in a member that hibernates while the disk is full, when none can be opened, is not forgotten: the
// member is opened when there is room, and kept closed until it is rebuilt.
func TestDamageOfSleeperOnFullDisk(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	h.closeHidden(h.hides(uid, false))
	h.press(wal.PressureFloor)
	h.poll("nothing is opened any more", func() error {
		h.mu.RLock()
		defer h.mu.RUnlock()
		if !h.full {
			return errWaiting
		}
		return nil
	})
	h.damage(uid)
	if h.Wake(uid) {
		t.Error("it is opened on a full disk")
	}
	h.press(wal.PressureNone)
	h.poll("the member counts as lost", func() error {
		if err := h.Losses()[uid]; !errors.Is(err, wal.ErrLost) {
			return fmt.Errorf("it is lost with %w", err)
		}
		return nil
	})
}
