package gateway

import (
	"context"
	"time"

	"github.com/quorate/quorate/quorumq"
)

// Restore passes on a message of a backup. It is like Enqueue, but has no time limit for the answer: the message waits
// for a leader until the node stops. So the numbers of its producer have no gaps, and a repeat through another node
// stores what is missing. While disks lack space it passes on nothing.
func (q *Queue) Restore(ctx context.Context, m quorumq.NewMessage, stored []byte, done func(error)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.awaitRoomLocked(ctx, len(stored)); err != nil {
		return err
	}
	if lack := q.g.cfg.Rooms.Admit(q.uid); lack != nil {
		return lack
	}
	q.publishLocked(m, stored, done, time.Time{})
	q.publishedLocked()
	return nil
}
