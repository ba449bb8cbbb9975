package gateway

import (
	"context"

	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Bounds of a unit: it is one command of the queue.
const (
	// MaxUnitBytes is how large a unit may be, as UnitBytes counts.
	MaxUnitBytes = raftfsm.MaxCommandBytes - 64<<10
	partBytes    = 64 // of a command, for each message
)

// Part is one message of a unit. Done is called as that of Enqueue.
type Part struct {
	Message quorumq.NewMessage
	Body    []byte
	Done    func(error)
}

// UnitBytes returns what a message with a stored body adds to a unit.
func UnitBytes(body []byte) int { return len(body) + partBytes }

// EnqueueUnit hands over messages of which the queue stores all or none (PUB-9), in their
// order. It is as Enqueue for all of them; the parts together must be within MaxUnitBytes.
func (q *Queue) EnqueueUnit(ctx context.Context, parts []Part) error {
	if err := q.g.cfg.Rooms.Admit(q.uid); err != nil {
		return err
	}
	size := 0
	for i := range parts {
		size += len(parts[i].Body)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.awaitRoomLocked(ctx, size); err != nil {
		return err
	}
	deadline := q.deadline()
	for i := range parts {
		p := &parts[i]
		p.Message.Joined = i < len(parts)-1
		q.publishLocked(p.Message, p.Body, p.Done, deadline)
	}
	q.publishedLocked()
	return nil
}
