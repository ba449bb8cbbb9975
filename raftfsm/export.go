package raftfsm

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/wait"
)

const (
	// exportPoll is the time between checks whether the machine has applied what an export waits for.
	exportPoll = 5 * time.Millisecond
	// exportCacheBytes limits the entries that an export keeps in memory: bodies are mostly read in their order, but
	// those of messages that were returned, or have priorities, are not. The node's own cache is left to its leaders.
	exportCacheBytes = 32 << 20
)

// Export is the state of a group's machine at one moment, with the bodies that it refers to. Until Close the storage
// drops nothing, so that a log grows. One goroutine uses it.
type Export struct {
	// Index is an entry that the state contains, with all before it; it may contain later ones.
	Index uint64

	state   Frozen
	body    func(BodyRef) ([]byte, error)
	release func()
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
	r := &bodyReader{cache: NewBodyCache(exportCacheBytes)}
	x := &Export{
		Index: g.applied.Load(), release: g.snaps.release,
		body: func(ref BodyRef) ([]byte, error) { return g.bodyOf(ref, r) },
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x.state = g.machine.Freeze()
	return x, nil
}

// State is the machine's state, until Close.
func (x *Export) State() Frozen { return x.state }

// Body returns a body that the state refers to; see Group.Body.
func (x *Export) Body(ref BodyRef) ([]byte, error) { return x.body(ref) }

// Close ends the export; it may be called again.
func (x *Export) Close() {
	if x.release != nil {
		x.release()
		x.release, x.state = nil, nil
	}
}
