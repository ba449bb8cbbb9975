package disk

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/wal"
)

// Log is the node's log, which shows the state of its disk.
type Log interface {
	// Space is how much room there is.
	Space() wal.Space
	// Stalled returns how long the current write has taken, and how long it may take.
	Stalled() (age, limit time.Duration)
	// Short reports whether the log waits for a file descriptor.
	Short() bool
	// Hung returns for how long a write has been under way that waits for nothing but the disk.
	Hung() time.Duration
}

// Transport connects to other nodes.
type Transport interface {
	// Connected reports whether there is a connection to a node.
	Connected(id.NodeID) (id.Epoch, bool)
	// Client returns the calls of a node.
	Client(id.NodeID) (nodev1.NodeClient, error)
	// Leniency is by how much longer something may take, since this node lacks processors.
	Leniency() time.Duration
}

// Groups are those of this node, which are notified of trouble with a disk. None of the methods waits.
type Groups interface {
	// WriteAge is for how long the oldest write has been under way that is not one of Log.
	WriteAge() time.Duration
	// Stopped returns how many members are closed for lack of room.
	Stopped() int
	// FloorPassed reports that members are to stop, or can be opened again.
	FloorPassed()
	// HangsChanged reports that a write has begun to hang, or has returned.
	HangsChanged(hangs bool)
}

// Watch keeps a Board up to date: it checks this node's disk and notifies peers of its state.
type Watch struct {
	Board     *Board
	Log       Log
	Transport Transport
	Groups    Groups
	Alive     func() []id.NodeID // the nodes that are there
	Every     time.Duration      // between checks of a disk without news
	Hang      time.Duration      // how long a write may take before the node ends
	Failed    func(error)        // called once when it has taken longer; nil: nothing is called
	Logger    *slog.Logger

	ended sync.Once
}

// Run checks this node's disk until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	due := time.Now().Add(w.Every)
	next := time.NewTimer(w.Every)
	defer next.Stop()
	for {
		late := time.Duration(0)
		select {
		case <-next.C:
			late = time.Since(due)
		case <-w.Board.looks:
		case <-ctx.Done():
			return
		}
		left := w.look(late)
		now := time.Now()
		wait := lookAfter(now, left, w.Every)
		due = now.Add(wait)
		next.Reset(wait)
	}
}

// Look updates the state of this node's disk, without asking the disk itself.
func (w *Watch) Look() { w.look(0) }

// look is Look; late is the delay of this check. It returns how long it takes until a write counts as hanging; 0: one
// hangs.
func (w *Watch) look(late time.Duration) (left time.Duration) {
	b := w.Board
	space := w.Log.Space()
	age, left := w.oldestWrite(late)
	stopped := 0
	if space.Pressure == wal.PressureFloor {
		stopped = w.Groups.Stopped()
	}
	b.mu.Lock()
	was := b.own
	b.own.Pressure, b.own.Free, b.own.Size = space.Pressure, space.Free, space.Total
	b.own.Low, b.own.Floor = uint64(max(0, space.Low)), uint64(max(0, space.Floor))
	if b.own.Hangs = age; left > 0 {
		b.own.Hangs = 0
	}
	b.own.Stopped = stopped
	now := b.own
	b.count()
	b.mu.Unlock()
	if now.Pressure != was.Pressure {
		w.pressed(&was, &now)
	}
	if hangs := now.Hangs > 0; hangs != (was.Hangs > 0) {
		w.hung(hangs, max(now.Hangs, was.Hangs))
	}
	if now.Hangs > 0 && w.hopeless() && w.Failed != nil {
		w.ended.Do(func() {
			w.Failed(fmt.Errorf("%w: a write to %q has been under way for %s: this node ends, so that it is started anew; look at the disk",
				ErrHangs, now.Path, now.Hangs.Round(time.Millisecond)))
		})
	}
	return left
}

// hopeless reports whether the disk has held up a write for so long that the node ends. To wait for a file
// descriptor is not the disk's fault, and a start would not bring it sooner.
func (w *Watch) hopeless() bool {
	return max(w.Log.Hung(), w.Groups.WriteAge()) >= w.Hang
}

// oldestWrite returns for how long the write has been under way that is nearest to being held
// to hang, and how long it takes until then.
func (w *Watch) oldestWrite(late time.Duration) (age, left time.Duration) {
	age, usual := w.Log.Stalled()
	left = untilStall(age, usual, w.Transport.Leniency(), late)
	own := w.Groups.WriteAge()
	return max(age, own), min(left, untilStall(own, wal.MostStall, 0, late))
}

// pressed acts on a change of the pressure on this node's disk.
func (w *Watch) pressed(was, now *State) {
	attrs := []any{
		"path", now.Path, "pressure", now.Pressure.String(), "was", was.Pressure.String(),
		"free_bytes", now.Free, "disk_low_bytes", now.Low, "disk_floor_bytes", now.Floor,
	}
	switch now.Pressure {
	case wal.PressureNone:
		w.Logger.Info("the disk has room again: this node leads and takes messages as before", attrs...)
	case wal.PressureLow:
		w.Logger.Warn("the disk is low: this node hands its leaders to nodes that have room; free space or make the volume larger", attrs...)
	case wal.PressureFloor:
		w.Logger.Error("the disk is nearly full: this node's members of queues stop until there is room; free space or make the volume larger", attrs...)
	}
	w.Board.NotifySoon()
	wait.Wake(w.Board.passes)
	if was.Pressure == wal.PressureFloor || now.Pressure == wal.PressureFloor {
		w.Groups.FloorPassed()
	}
}

// hung acts when a write begins to hang, and when it has returned.
func (w *Watch) hung(hangs bool, age time.Duration) {
	b := w.Board
	b.hangs.Store(hangs)
	if hangs {
		w.Logger.Error("a write to the disk hangs: this node's leaders are silent, so that other members are elected",
			"path", b.own.Path, "for", age, "ends_after", w.Hang, "waits_for_descriptor", w.Log.Short())
	} else {
		w.Logger.Warn("the disk takes writes again", "path", b.own.Path, "hung_for", age)
	}
	w.Groups.HangsChanged(hangs)
	b.NotifySoon()
}
