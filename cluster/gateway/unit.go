package gateway

import (
	"context"

	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Limits of a unit, which is one command of the queue.
const (
	// MaxUnitBytes is the maximum size of a unit, as counted by UnitBytes.
	MaxUnitBytes = raftfsm.MaxCommandBytes - 64<<10
	partBytes    = 64 // of a command, for each message
)

// Part is one message of a unit. Done is called like done of Enqueue.
type Part struct {
	Message quorumq.NewMessage
	Body    []byte
	Done    func(error)
}

// UnitBytes returns how much a message with this stored body adds to the size of a unit.
func UnitBytes(body []byte) int { return len(body) + partBytes }

// EnqueueUnit publishes messages of which the queue stores all or none (PUB-9), in order. It works
// like Enqueue for all of them; together they must not exceed MaxUnitBytes.
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
