package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/backup"
	"github.com/quorate/quorate/cluster/replica/machine"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// errNoRoomForExport ends an export, because the log cannot be compacted while it lasts.
var errNoRoomForExport = errors.New("cluster: this node's disk is nearly full, and while a queue is exported its log cannot be compacted: free space on the node and export again")

// Export writes the queue as it is once this member, which need not lead, has applied the entry at an index: the
// blocks of package backup. Names are those of the queue in the catalog. While emit waits, the member continues, but
// its log grows.
func (q *Member) Export(ctx context.Context, index uint64, vhost, name string, headOnly bool, emit backup.Emit) error {
	q.exports.Add(1) // before anything is read: see Member.mayClose
	defer q.exports.Add(-1)
	if !headOnly && q.h.cfg.Disks.Low() {
		return errNoRoomForExport // before the first block, so that another member is asked
	}
	x, err := q.group.Export(ctx, index)
	if err != nil {
		return err
	}
	defer x.Close()
	head := backup.Head{VHost: vhost, Queue: name, UID: q.uid, Index: x.Index}
	if headOnly {
		q.Read(func(state *quorumq.Queue) { describe(&head, state) })
		return backup.NewWriter(emit).Head(&head)
	}
	state, err := contentsOf(x)
	if err != nil {
		return fmt.Errorf("cluster: exporting queue %s: %w", q.uid, err)
	}
	describe(&head, state)
	defer q.h.cfg.Pace.Begin()()
	w := backup.NewWriter(func(block []byte) ([]byte, error) {
		if err := q.h.cfg.Pace.Wait(ctx, len(block)); err != nil {
			return nil, err
		}
		return emit(block)
	})
	if err := w.Head(&head); err != nil {
		return err
	}
	for s := range state.Save() {
		if q.h.cfg.Disks.Low() {
			return errNoRoomForExport
		}
		m := backup.Message{TTLMs: s.TTLMs, Priority: s.Priority, Due: s.Due, Past: s.Past}
		if m.Stored, err = storedWith(x, &s); err != nil {
			return fmt.Errorf("cluster: exporting queue %s: %w", q.uid, err)
		}
		if err := w.Message(&m); err != nil {
			return err
		}
	}
	return w.End()
}

// described is a state of a queue, at one moment.
type described interface {
	Now() quorumq.Time
	Held() uint64
	BacklogLeft() uint64
}

// describe sets what the head of a copy records about the state.
func describe(head *backup.Head, state described) {
	head.At, head.Messages, head.Left = state.Now(), state.Held(), state.BacklogLeft()
}

// contentsOf returns the messages of an exported state.
func contentsOf(x *raftfsm.Export) (*quorumq.Contents, error) {
	f, ok := x.State().(machine.Frozen)
	if !ok {
		return nil, fmt.Errorf("its state is a %T", x.State())
	}
	return f.Contents()
}

// storedWith returns the stored message with the annotations of its returns, as a delivery has them (DEL-11).
func storedWith(x *raftfsm.Export, s *quorumq.Saved) ([]byte, error) {
	stored, err := x.Body(raftfsm.BodyRef(s.Body))
	if err != nil || s.Annotations == (quorumq.BodyRef{}) {
		return stored, err
	}
	b, err := x.Body(raftfsm.BodyRef(s.Annotations))
	if err != nil {
		return nil, err
	}
	m, err := message.Decode(stored)
	if err == nil {
		_, err = m.Annotate(b)
	}
	if err != nil {
		return nil, err
	}
	return message.Append(nil, m), nil
}
