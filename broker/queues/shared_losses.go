package queues

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
)

// sharedLosses are the newest lost members, which lists and single queues share like sharedFigures. A question to the
// nodes continues when those who wanted the answer no longer wait for it. All methods may be called concurrently.
type sharedLosses struct {
	ask func(context.Context) map[id.QueueUID][]id.NodeID // asks all nodes

	mu    sync.Mutex // guards what follows
	at    time.Time  // of last
	asked *question  // the one under way; nil: none is
	last  lostMembers
}

// question is one to all nodes.
type question struct {
	began    time.Time
	answered chan struct{} // is closed
}

// refresh has the nodes asked, if their last answers are not fresh and no question is under way.
func (s *sharedLosses) refresh(life context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked != nil || s.last != nil && time.Since(s.at) < figuresFreshFor {
		return
	}
	q := &question{began: time.Now(), answered: make(chan struct{})}
	s.asked = q
	go func() {
		ctx, cancel := context.WithTimeout(life, figuresTimeout) // no caller's: others wait for the same answers
		defer cancel()
		last := s.ask(ctx)
		s.mu.Lock()
		s.last, s.at, s.asked = last, time.Now(), nil
		s.mu.Unlock()
		close(q.answered)
	}()
}

// newest returns the newest lost members, or nil if the nodes were not asked before. It waits for the question that is under
// way until this was for as long as patience, and leaves ctx half of its time. So a node that does not answer makes the
// answers older, and holds up nobody.
func (s *sharedLosses) newest(ctx context.Context, patience time.Duration) lostMembers {
	s.mu.Lock()
	q := s.asked
	s.mu.Unlock()
	if q != nil {
		q.await(ctx, patience)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// await waits for the answers as newest does.
func (q *question) await(ctx context.Context, patience time.Duration) {
	left := time.Until(q.began.Add(patience))
	if end, has := ctx.Deadline(); has {
		left = min(left, time.Until(end)/2)
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-q.answered:
	case <-timer.C:
	case <-ctx.Done():
	}
}
