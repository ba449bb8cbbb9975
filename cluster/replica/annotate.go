package replica

import (
	"errors"

	"github.com/quorate/quorate/cluster/replica/machine"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// The queue keeps one table of annotations for a message: the newest. So a table that a client adds
// must also contain the older annotations (DEL-11). The gateway of a stream knows the annotations
// of its deliveries. But any node may decide about a message that Get took, and then only the
// leader can look the annotations up.

// annotate proposes a decision with the annotations that its message has, merged with those that it
// adds. It can look them up before it proposes: while a consumer holds a message, nobody else
// annotates it.
func (q *Member) annotate(p machine.Prelude, c raftfsm.Command, done func(quorumq.Reply, error)) {
	var d quorumq.Delivery
	q.group.Read(func() { d, _ = q.machine.Queue().Holds(p.Consumer, p.Message) })
	if d.Annotations == (quorumq.BodyRef{}) {
		q.group.Submit(c, done)
		return
	}
	posted := q.box.Post(func() { // off the caller's goroutine: the log may have to be read
		merged, err := q.annotations(d.Annotations, c.Bodies[0])
		if err != nil {
			q.h.cfg.Logger.Warn("annotations of a message cannot be read; its decision waits", "queue", q.uid.String(), "error", err)
			done(quorumq.Reply{}, raftfsm.ErrBusy)
			return
		}
		c.Bodies = [][]byte{merged}
		q.group.Submit(c, done)
	})
	if !posted {
		done(quorumq.Reply{}, raftfsm.ErrStopped)
	}
}

// annotations returns the stored form of the annotations at a reference, with others added.
func (q *Member) annotations(have quorumq.BodyRef, added []byte) ([]byte, error) {
	stored, err := q.group.Body(raftfsm.BodyRef(have))
	if err != nil {
		return nil, err
	}
	before, _, err1 := message.DecodeTable(stored)
	after, _, err2 := message.DecodeTable(added)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return message.AppendTable(nil, message.MergedAnnotations(before, after)), nil
}
