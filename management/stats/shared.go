package stats

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errClosed refuses calls after Close.
var errClosed = errors.New("stats: the collector is closed")

// shared is the newest value of something that costs questions to all nodes. Those that ask at the same time wait for the
// same round.
type shared[T any] struct {
	life    context.Context // ends with the collector
	fresh   time.Duration   // how old the value may be
	collect func(ctx context.Context) (T, error)

	mu     sync.Mutex
	last   T
	at     time.Time // when the round of last began; zero: never
	round  *round[T] // under way; nil: none
	closed bool
}

// round is a round of questions.
type round[T any] struct {
	done  chan struct{} // closed when the other fields are set
	value T
	err   error
}

// get returns a value that is fresh enough. A caller whose ctx ends leaves the round to the others.
func (s *shared[T]) get(ctx context.Context) (T, error) {
	r, last, err := s.join()
	if r == nil {
		return last, err
	}
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return last, ctx.Err()
	}
}

// join returns the round to wait for, or nil with the value that there is.
func (s *shared[T]) join() (*round[T], T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, s.last, errClosed
	case s.round != nil:
	case !s.at.IsZero() && time.Since(s.at) < s.fresh:
		return nil, s.last, nil
	default:
		s.round = &round[T]{done: make(chan struct{})}
		go s.run(s.round)
	}
	return s.round, s.last, nil
}

// newest returns the last value, however old, or the zero value.
func (s *shared[T]) newest() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// run is the goroutine of a round. It does not end with the caller that began it, since others wait for it.
func (s *shared[T]) run(r *round[T]) {
	ctx, cancel := context.WithTimeout(s.life, roundTimeout)
	defer cancel()
	began := time.Now()
	r.value, r.err = s.collect(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round = nil
	if r.err == nil {
		s.last, s.at = r.value, began
	}
	close(r.done)
}

// close refuses further calls and waits for the round under way.
func (s *shared[T]) close() {
	s.mu.Lock()
	s.closed = true
	r := s.round
	s.mu.Unlock()
	if r != nil {
		<-r.done
	}
}
