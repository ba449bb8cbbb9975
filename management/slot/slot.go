// Package slot bounds the HTTP requests of a node that have messages in memory: those of the HTTP API, and pages that
// show what the API has answered.
package slot

import (
	"context"
	"sync"
	"time"
)

// Requests with messages hold a slot from before they are read until the answer is written: as long as either is in
// memory. Others wait up to slotPatience. A user who sends or reads slowly keeps only the slots of one user.
const (
	// Requests is how many requests of a node have messages in memory at a time.
	Requests = 4
	// RequestsOfUser is how many of them are one user's.
	RequestsOfUser = 2

	slotPatience = 5 * time.Second
)

// Slots counts the requests of a node that have messages in memory. Its methods may be called concurrently.
type Slots struct {
	mu    sync.Mutex
	taken int
	of    map[string]int // by user
	freed chan struct{}  // closed when a slot is freed, and made again
}

// New returns slots that are all free.
func New() *Slots { return &Slots{of: map[string]int{}, freed: make(chan struct{})} }

// try takes a slot for a user, or returns what is closed when it is worth to try again.
func (s *Slots) try(user string) (taken bool, freed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == Requests || user != "" && s.of[user] == RequestsOfUser {
		return false, s.freed
	}
	s.taken++
	s.of[user]++
	return true, nil
}

// free gives a slot back.
func (s *Slots) free(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.of[user]--; s.of[user] == 0 {
		delete(s.of, user)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}

// Take waits for a slot of a user, "" without logins; free gives it back. taken is false if no slot became free in
// time. The error is ctx's. If Keep has made ctx, the slot is kept, and a slot that is kept already is used again.
func (s *Slots) Take(ctx context.Context, user string) (free func(), taken bool, err error) {
	k, _ := ctx.Value(keptKey{}).(*kept)
	if k.has() {
		return func() {}, true, nil
	}
	patience := time.NewTimer(slotPatience)
	defer patience.Stop()
	for {
		taken, freed := s.try(user)
		if taken {
			return k.keep(func() { s.free(user) }), true, nil
		}
		select {
		case <-freed:
		case <-patience.C:
			return nil, false, nil
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// kept is the slot of a request that makes others in the same process, and has their messages in memory until it ends. A
// nil kept keeps none.
type kept struct {
	mu   sync.Mutex // guards what follows
	free func()     // nil: there is no slot
	over bool
}

// keptKey is the key of the slot in a context; its own type keeps it unique.
type keptKey struct{}

// Keep returns a context with which a slot that is taken stays taken until end is called.
func Keep(ctx context.Context) (with context.Context, end func()) {
	k := &kept{}
	return context.WithValue(ctx, keptKey{}, k), k.end
}

// has reports whether there is a slot.
func (k *kept) has() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.free != nil
}

// keep takes over a slot, and returns what its taker calls to give it back.
func (k *kept) keep(free func()) func() {
	if k == nil {
		return free
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.free != nil {
		return free
	}
	k.free = free
	return func() {}
}

// end gives the slot back.
func (k *kept) end() {
	k.mu.Lock()
	free := k.free
	k.free, k.over = nil, true
	k.mu.Unlock()
	if free != nil {
		free()
	}
}
