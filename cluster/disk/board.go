// Package disk tracks the state of the disks of this node and of its peers, and its consequences:
//
//   - low: the node hands its leaders to nodes that have room, and queues without a
//     majority of members with room take no more messages. Commands that free space still work.
//   - floor, and the log's reserve is used up: the node's members of queues stop, before the
//     log can fail.
//   - a write hangs: its leaders are silent, so that others are elected; if it does not
//     return, the node ends.
//
// A Board holds what is known, for all who ask; it depends on nothing. Rooms works out from it which queues
// take messages, and needs the catalog's view and the connections of this node. A Watch keeps it up to date; it
// needs the log, the connections, and somebody who acts on the groups.
package disk

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/wal"
)

// Board is what is known of disks. All methods may be called concurrently; none waits for
// anything.
type Board struct {
	node    id.NodeID
	log     *slog.Logger
	most    int64
	looks   chan struct{} // of capacity 1: do not wait for the next look
	notices chan struct{} // of capacity 1
	passes  chan struct{} // of capacity 1: the pressure on this node's disk has changed

	scarce  atomic.Bool  // some node has little room; false lets Rooms be quick
	low     atomic.Bool  // this node has little room
	window  atomic.Int64 // bytes of bodies that may wait for each queue's answers
	hangs   atomic.Bool  // a write of this node hangs
	refused atomic.Uint64
	moved   atomic.Uint64

	mu     sync.Mutex // guards what follows
	own    State
	number uint64 // of the newest word to peers
	peers  map[id.NodeID]reported
}

// reported is what a peer reported last.
type reported struct {
	State

	epoch  id.Epoch
	number uint64
}

// NewBoard returns a board without any states yet. path is the node's data directory, and mostWaiting how many bytes
// of bodies may wait for the answers of a queue where disks have room.
func NewBoard(node id.NodeID, path string, mostWaiting int64, log *slog.Logger) *Board {
	b := &Board{
		node: node, log: log, most: mostWaiting,
		looks: make(chan struct{}, 1), notices: make(chan struct{}, 1), passes: make(chan struct{}, 1),
		own: State{Path: path}, peers: map[id.NodeID]reported{},
	}
	b.window.Store(mostWaiting)
	return b
}

// LookSoon makes the next check of this node's disk come soon.
func (b *Board) LookSoon() { wait.Wake(b.looks) }

// NotifySoon has peers notified of this node's disk soon.
func (b *Board) NotifySoon() { wait.Wake(b.notices) }

// Passes has one element after the pressure on this node's disk has changed.
func (b *Board) Passes() <-chan struct{} { return b.passes }

// Hangs reports whether a write of this node hangs.
func (b *Board) Hangs() bool { return b.hangs.Load() }

// Low reports whether this node has little room.
func (b *Board) Low() bool { return b.low.Load() }

// Window returns how many bytes of bodies may wait for the answers of a queue.
func (b *Board) Window() int64 { return b.window.Load() }

// Moved counts leaders that this node handed over because space was short.
func (b *Board) Moved(n uint64) { b.moved.Add(n) }

// windowShare of the least storage.disk_low of all nodes may wait for a queue's answers: what
// was accepted before publishes are refused has to find room.
const windowShare = 8

// count notes whether any node has little room, and what that means for this one. The
// caller holds mu.
func (b *Board) count() {
	scarce, low := b.own.Pressure != wal.PressureNone, b.own.Low
	for _, p := range b.peers {
		scarce = scarce || p.Pressure != wal.PressureNone
		if p.Low > 0 && (low == 0 || p.Low < low) {
			low = p.Low
		}
	}
	b.scarce.Store(scarce)
	b.low.Store(b.own.Pressure != wal.PressureNone)
	window := b.most
	if low > 0 {
		window = int64(min(uint64(b.most), low/windowShare))
	}
	b.window.Store(window)
}

// Of returns what is known of a node's disk, nil if nothing is.
func (b *Board) Of(n id.NodeID) *State {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n == b.node {
		own := b.own
		own.Refused, own.Moved = b.refused.Load(), b.moved.Load()
		return &own
	}
	if p, known := b.peers[n]; known {
		return &p.State
	}
	return nil
}

// Fine reports whether a node has room, as far as it has reported.
func (b *Board) Fine(n id.NodeID) bool {
	known := b.Of(n)
	return known == nil || known.Pressure == wal.PressureNone
}

// Full reports whether this node's members of queues are to stop.
func (b *Board) Full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own.Pressure == wal.PressureFloor
}

// Ready reports why this node is not: its members do not count while they are stopped, so
// that no other node may be taken down.
func (b *Board) Ready() error {
	own := b.Of(b.node)
	if own.Pressure != wal.PressureFloor {
		return nil
	}
	return fmt.Errorf("%w: %s: %d members are stopped until there is room", ErrNoSpace, own.describe(b.node), own.Stopped)
}

// Warning returns what an operator should check although the node serves; "": nothing.
func (b *Board) Warning() string {
	own := b.Of(b.node)
	switch {
	case own.Hangs > 0:
		return fmt.Sprintf("a write to %s has been under way for %s", own.Path, own.Hangs.Round(time.Millisecond))
	case own.Pressure != wal.PressureNone:
		return own.describe(b.node)
	}
	return ""
}

// Hear records what a peer reports, unless something newer is known.
func (b *Board) Hear(n id.NodeID, epoch id.Epoch, r *nodev1.TellDiskRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.peers[n]
	if was.epoch > epoch || was.epoch == epoch && was.number >= r.GetNumber() {
		return
	}
	now := reported{State: fromWire(r.GetDisk()), epoch: epoch, number: r.GetNumber()}
	b.peers[n] = now
	b.count()
	if now.Pressure != was.Pressure {
		b.log.Info("a peer's disk has crossed a limit", "peer", string(n), "pressure", now.Pressure.String(), "was", was.Pressure.String(), "free_bytes", now.Free)
	}
}
