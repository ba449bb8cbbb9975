package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/replica/presence"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

var _ deadletter.Source = (*Led)(nil)

// Led is a queue that this node leads in one term. After Ceased its methods fail with
// traffic.ErrUnavailable. All methods may be called concurrently.
type Led struct {
	queue *Member
	term  uint64

	ceased     atomic.Bool
	configured atomic.Bool // a configuration is in force in this term
	// configuring counts the configurations that were proposed and are not answered.
	configuring atomic.Int32
	notDeleted  notDeleted

	// What follows belongs to the worker that runs the queue's mailbox.
	asked *quorumq.Config // the newest configuration proposed
	// confirmed: this node's view has shown what the leaders before have acted on; see metadata.Confirmations.
	// asking: that is being asked for.
	confirmed, asking bool
	// degraded is why dead-lettering is weaker than requested, as last reported.
	degraded string
	emptied  bool                         // it is being emptied for its deletion
	reported map[id.NodeID]presence.State // what was last reported to the queue about nodes
	unsent   unsent
}

// UID returns the queue's UID.
func (l *Led) UID() id.QueueUID { return l.queue.uid }

// Term returns the term of the leadership.
func (l *Led) Term() uint64 { return l.term }

// check must be called before each use, because leadership ends without notice.
func (l *Led) check() error {
	if l.ceased.Load() {
		return fmt.Errorf("%w: queue %s: this node no longer leads it in term %d", traffic.ErrUnavailable, l.queue.uid, l.term)
	}
	return nil
}

// Backlog appends up to limit discarded messages with numbers above after, in order, and
// returns the watermark up to which all are settled.
func (l *Led) Backlog(dst []quorumq.Discarded, after quorumq.Seq, limit int) ([]quorumq.Discarded, quorumq.Seq, error) {
	if err := l.check(); err != nil {
		return dst, 0, err
	}
	var settled quorumq.Seq
	l.queue.group.Read(func() {
		dst = l.queue.machine.Queue().Backlog(dst, after, limit)
		settled = l.queue.machine.Queue().BacklogSettled()
	})
	return dst, settled, nil
}

// Body returns a body, or annotations, by reference, in stored form. The bytes must not be changed. If the backlog has it
// and the log of this member, which leads, does not, the member has lost what it had stored: see Member.load.
func (l *Led) Body(ref quorumq.BodyRef) ([]byte, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	b, err := l.queue.group.Body(raftfsm.BodyRef(ref))
	if errors.Is(err, raft.ErrLogNotFound) && l.waits(ref) {
		l.queue.group.Fail(fmt.Errorf("%w: body %d of entry %d, of a dead letter: %w", wal.ErrLost, ref.Slot, ref.Index, err))
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: body %d/%d of queue %s: %w", ref.Index, ref.Slot, l.queue.uid, err)
	}
	return b, nil
}

// waitsPage is how many dead letters waits examines while no command is applied.
const waitsPage = 1024

// waits reports whether the backlog has a dead letter with this body, or these annotations.
func (l *Led) waits(ref quorumq.BodyRef) bool {
	var page []quorumq.Discarded
	for after := quorumq.Seq(0); ; after = page[len(page)-1].Seq {
		var err error
		if page, _, err = l.Backlog(page[:0], after, waitsPage); err != nil || len(page) == 0 {
			return false
		}
		if slices.ContainsFunc(page, func(d quorumq.Discarded) bool { return d.Body == ref || d.Annotations == ref }) {
			return true
		}
	}
}

// SettleBacklog removes forwarded messages from the backlog (DL-21). After an error it may or may
// not have done so; it is safe to repeat.
func (l *Led) SettleBacklog(ctx context.Context, ranges []quorumq.SeqRange) error {
	if err := l.check(); err != nil {
		return err
	}
	command := raftfsm.Command{Header: quorumq.AppendCommand(nil, &quorumq.BacklogSettle{Ranges: ranges})}
	if !l.queue.h.decoders.Readable(command) {
		return fmt.Errorf("cluster: settling the backlog of queue %s: ranges %v are malformed", l.queue.uid, ranges)
	}
	r, err := l.queue.group.Propose(ctx, command)
	switch {
	case err == nil && r.Code == quorumq.CodeOK:
		return nil
	case err == nil:
		return fmt.Errorf("cluster: settling the backlog of queue %s: the queue answered with code %d", l.queue.uid, r.Code)
	case errors.Is(err, raftfsm.ErrBusy), errors.Is(err, raftfsm.ErrStopped), isNotLeader(err):
		return fmt.Errorf("%w: queue %s: %w", traffic.ErrUnavailable, l.queue.uid, err)
	}
	return fmt.Errorf("%w: queue %s: %w", traffic.ErrUnknownOutcome, l.queue.uid, err)
}

func isNotLeader(err error) bool {
	var n *raftfsm.NotLeaderError
	return errors.As(err, &n)
}
