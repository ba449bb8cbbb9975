package cluster

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/catalog"
)

// views holds the newest view of the catalog. Any goroutine reads it without a lock;
// the catalog's apply path alone publishes.
type views struct {
	view atomic.Pointer[catalog.View]

	mu      sync.Mutex
	changed chan struct{}
}

func newViews(v *catalog.View) *views {
	s := &views{changed: make(chan struct{})}
	s.view.Store(v)
	return s
}

// publish shows a view, unless a newer one was shown: a snapshot from the leader may be
// older than what this member has applied, and what a node has seen it goes on seeing
// (EX-15). The entries in between follow.
func (s *views) publish(v *catalog.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.Index() < s.view.Load().Index() {
		return
	}
	s.view.Store(v)
	close(s.changed)
	s.changed = make(chan struct{})
}

// next returns a channel that is closed at the next change; ask for it before the view.
func (s *views) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// await returns when the view shows everything up to the index.
func (s *views) await(ctx context.Context, index uint64) error {
	for {
		changed := s.next()
		if s.view.Load().Index() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
