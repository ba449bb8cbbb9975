package cluster

import (
	"context"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Led is a queue that this node leads in one term. After Ceased its methods fail with
// ErrUnavailable. All methods may be called concurrently.
type Led struct{}

// UID returns the queue's UID.
func (l *Led) UID() id.QueueUID { return 0 }

// Term returns the term of the leadership.
func (l *Led) Term() uint64 { return 0 }

// Backlog appends up to limit discarded messages with numbers above after, in order, and
// returns the watermark up to which all are settled.
func (l *Led) Backlog(dst []quorumq.Discarded, after quorumq.Seq, limit int) ([]quorumq.Discarded, quorumq.Seq, error) {
	return dst, 0, errNotYet
}

// Body returns a body, or annotations, by reference, in stored form. The bytes must not be changed.
func (l *Led) Body(ref quorumq.BodyRef) ([]byte, error) { return nil, errNotYet }

// SettleBacklog removes forwarded messages from the backlog (DL-21).
func (l *Led) SettleBacklog(ctx context.Context, ranges []quorumq.SeqRange) error { return errNotYet }
