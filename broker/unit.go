package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/id"
)

// Unit collects publishes. Each queue stores all those that are routed to it, or none (PUB-9);
// between queues there is no such guarantee. The zero value is empty. A Unit belongs to one
// goroutine, and ends with Commit or Drop.
type Unit struct{ shares []share }

// share is one queue's part of a unit.
type share struct {
	uid   id.QueueUID
	queue enqueuer
	parts []gateway.Part
	bytes int
}

// errDropped answers publishes that were not handed to their queue.
var errDropped = errors.New("broker: the unit was given up")

// add keeps a message for Commit.
func (u *Unit) add(uid id.QueueUID, q enqueuer, p gateway.Part) {
	s := u.share(uid, q)
	s.parts = append(s.parts, p)
	s.bytes += gateway.UnitBytes(p.Body)
}

// share returns a queue's share, and begins it if necessary. It searches all shares: a unit has few queues.
func (u *Unit) share(uid id.QueueUID, q enqueuer) *share {
	for i := range u.shares {
		if u.shares[i].uid == uid {
			return &u.shares[i]
		}
	}
	u.shares = append(u.shares, share{uid: uid, queue: q})
	return &u.shares[len(u.shares)-1]
}

// Commit hands each queue its share, in the order in which the queues got their first message. The
// publishes are answered as by Publish; those of one queue are all stored or all not. While the
// window of a queue is full, Commit waits, but no longer than ctx. If a share is larger than a
// queue takes at once, Commit returns a *failure.Error and nothing is stored.
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

// answer gives every publish of the share the same answer, because the queue has stored all or
// none.
func (s *share) answer(err error) {
	for i := range s.parts {
		s.parts[i].Done(err)
	}
}
