package rest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/broker/failure"
)

// Requests with messages hold a slot from before the body is read until the answer is written: as long as either is in
// memory. Others wait up to slotPatience. A user who sends or reads slowly keeps only the slots of one user.
const (
	messageRequests       = 4 // of a node
	messageRequestsOfUser = 2
	slotPatience          = 5 * time.Second
)

// messageSlots counts the requests of a node that have messages in memory. Its methods may be called concurrently.
type messageSlots struct {
	mu    sync.Mutex
	taken int
	of    map[string]int // by user
	freed chan struct{}  // closed when a slot is freed, and made anew
}

func newMessageSlots() *messageSlots {
	return &messageSlots{of: map[string]int{}, freed: make(chan struct{})}
}

// try takes a slot for a user, "" where nobody logs in, or returns what is closed when it is worth to try again.
func (s *messageSlots) try(user string) (taken bool, freed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == messageRequests || user != "" && s.of[user] == messageRequestsOfUser {
		return false, s.freed
	}
	s.taken++
	s.of[user]++
	return true, nil
}

// free gives a slot back.
func (s *messageSlots) free(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.of[user]--; s.of[user] == 0 {
		delete(s.of, user)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}

// take waits for a slot; false: for too long. The error is ctx's.
func (s *messageSlots) take(ctx context.Context, user string) (bool, error) {
	patience := time.NewTimer(slotPatience)
	defer patience.Stop()
	for {
		taken, freed := s.try(user)
		if taken {
			return true, nil
		}
		select {
		case <-freed:
		case <-patience.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// withMessages serves a route that has messages in memory.
func withMessages(serve func(c *call) (reply, error)) func(c *call) (reply, error) {
	return func(c *call) (reply, error) {
		who, err := c.api.Broker.Logins.Who(c.Context())
		if err != nil {
			return reply{}, err
		}
		user := ""
		if who != nil && c.api.Guard.Asks() {
			user = who.User()
		}
		switch taken, err := c.api.messages.take(c.Context(), user); {
		case err != nil:
			return reply{}, err
		case !taken:
			return reply{}, &failure.Error{
				Class: failure.ResourceExhausted, Kind: "message", VHost: c.vhost(),
				Reason: "this node serves " + strconv.Itoa(messageRequests) + " requests with messages at a time, " +
					strconv.Itoa(messageRequestsOfUser) + " of one user; repeat it, or use AMQP or gRPC",
			}
		}
		c.answered = func() { c.api.messages.free(user) }
		return serve(c)
	}
}
