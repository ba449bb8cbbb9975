package raftfsm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

const (
	// exportPoll is the time between two looks whether the machine has applied what an export waits for.
	exportPoll = 5 * time.Millisecond
	// exportEntries limits the entries that an export keeps in memory: bodies are mostly read in their order, but
	// those of messages that were returned, or have priorities, are not.
	exportEntries = 32
)

// Export is the state of a group's machine at one moment, with the bodies that it refers to. Until Close the storage
// drops nothing, so that a log grows. One goroutine uses it.
type Export struct {
	// Index is an entry that the state contains, with all before it; it may contain later ones.
	Index uint64

	state   Frozen
	group   id.GroupID
	storage Storage
	release func()
	entries map[uint64]*bodySet
	order   []uint64 // of entries, the one read first in front
	fail    func(error) error
}

// Export returns the state once the machine has applied the entry at an index; the member need not lead. The error is
// that of ctx if the machine does not get there in time, ErrStopped if the member does not run.
func (g *Group[R, E]) Export(ctx context.Context, index uint64) (*Export, error) {
	for g.applied.Load() < index {
		if g.isStopping() {
			return nil, g.stopped()
		}
		if err := wait.For(ctx, exportPoll); err != nil {
			return nil, fmt.Errorf("raftfsm: group %s: this member has applied entry %d and not yet %d: %w", g.c.Group, g.applied.Load(), index, err)
		}
	}
	if g.isStopping() {
		return nil, g.stopped()
	}
	g.snaps.hold() // before the state is taken: nothing that it refers to may go
	x := &Export{
		Index: g.applied.Load(), group: g.c.Group, storage: g.c.Storage, release: g.snaps.release,
		entries: make(map[uint64]*bodySet, exportEntries),
		fail: func(err error) error {
			g.fail(err)
			return g.stopped()
		},
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x.state = g.machine.Freeze()
	return x, nil
}

// AppendSnapshot appends the machine's state.
func (x *Export) AppendSnapshot(b []byte) []byte { return x.state.AppendSnapshot(b) }

// Body returns a body that the state refers to. The caller must not change the bytes. A body that does not match its
// checksum stops the group on this member, as in Group.Body.
func (x *Export) Body(ref BodyRef) ([]byte, error) {
	set := x.entries[ref.Index]
	if set == nil {
		var err error
		if set, _, err = loadBodies(x.storage, x.group, ref.Index); err != nil {
			if errors.Is(err, errCorrupt) {
				err = x.fail(fmt.Errorf("body %d of %w", ref.Slot, err))
			}
			return nil, err
		}
		x.keep(ref.Index, set)
	}
	body, ok := set.body(ref.Slot)
	if !ok {
		return nil, fmt.Errorf("raftfsm: group %s: entry %d has no body %d: %w", x.group, ref.Index, ref.Slot, raft.ErrLogNotFound)
	}
	return body, nil
}

// keep remembers an entry, and forgets the one that was read first.
func (x *Export) keep(index uint64, set *bodySet) {
	if len(x.order) == exportEntries {
		delete(x.entries, x.order[0])
		x.order = append(x.order[:0], x.order[1:]...)
	}
	x.entries[index] = set
	x.order = append(x.order, index)
}

// Close ends the export; it may be called again.
func (x *Export) Close() {
	if x.release != nil {
		x.release()
		x.release, x.state, x.entries = nil, nil, nil
	}
}
