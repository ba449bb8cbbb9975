package metadata

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/catalog"
)

// Views holds the newest view of the catalog. Any goroutine reads it without a lock;
// the catalog's apply path alone publishes.
type Views struct {
	view atomic.Pointer[catalog.View]

	mu      sync.Mutex
	changed chan struct{}
}

// NewViews shows a view until there is a newer one.
func NewViews(v *catalog.View) *Views {
	s := &Views{changed: make(chan struct{})}
	s.view.Store(v)
	return s
}

// View returns the newest view.
func (s *Views) View() *catalog.View { return s.view.Load() }

// Publish shows a view, unless a newer one was shown: a snapshot from the leader may be older than what this member
// has applied, and a node must keep seeing what it has seen (EX-15). The entries in between follow.
func (s *Views) Publish(v *catalog.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.Index() < s.view.Load().Index() {
		return
	}
	s.view.Store(v)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Next returns a channel that is closed at the next change; ask for it before the view.
func (s *Views) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Await returns when the view shows everything up to the index.
func (s *Views) Await(ctx context.Context, index uint64) error {
	for {
		changed := s.Next()
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
