package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/id"
)

// Unit gathers publishes: of what is routed to a queue, the queue stores all or nothing
// (PUB-9). Nothing holds over several queues. The zero value is empty; it belongs to one
// goroutine and ends with Commit or Drop.
type Unit struct{ shares []share }

// share is one queue's part of a unit.
type share struct {
	uid   id.QueueUID
	queue enqueuer
	parts []gateway.Part
	bytes int
}

// errDropped answers what was never handed to a queue.
var errDropped = errors.New("broker: the unit was given up")

// add keeps a message until Commit.
func (u *Unit) add(uid id.QueueUID, q enqueuer, p gateway.Part) {
	s := u.share(uid, q)
	s.parts = append(s.parts, p)
	s.bytes += gateway.UnitBytes(p.Body)
}

// share finds a queue's share, or begins it; few queues are in one unit.
func (u *Unit) share(uid id.QueueUID, q enqueuer) *share {
	for i := range u.shares {
		if u.shares[i].uid == uid {
			return &u.shares[i]
		}
	}
	u.shares = append(u.shares, share{uid: uid, queue: q})
	return &u.shares[len(u.shares)-1]
}

// Commit hands each queue its share, in the order in which they were routed to first. The
// publishes are answered as by Publish, those of one queue all as stored or all as not. It
// waits while a queue's window is full, until ctx ends. It returns an *Error, and nothing is
// stored, if a share is larger than a queue takes at once.
func (u *Unit) Commit(ctx context.Context) error {
	for i := range u.shares {
		if s := &u.shares[i]; s.bytes > gateway.MaxUnitBytes {
			u.Drop()
			return &failure.Error{
				Class: failure.PreconditionFailed, Kind: "transaction",
				Reason: fmt.Sprintf("it has %d bytes for one queue, at most %d are possible: commit more often", s.bytes, gateway.MaxUnitBytes),
			}
		}
	}
	for i := range u.shares {
		s := &u.shares[i]
		if err := s.queue.EnqueueUnit(ctx, s.parts); err != nil {
			s.answer(err)
		}
	}
	u.shares = nil
	return nil
}

// Drop answers all publishes as not stored.
func (u *Unit) Drop() {
	for i := range u.shares {
		u.shares[i].answer(errDropped)
	}
	u.shares = nil
}

// answer gives every publish of the share the same answer: the queue has stored all or none.
func (s *share) answer(err error) {
	for i := range s.parts {
		s.parts[i].Done(err)
	}
}
