package replica

import (
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/replica/presence"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/quorumq"
)

// Leading implements raftfsm.Effector. It runs on the apply path.
func (q *Member) Leading(leading bool, term uint64) {
	q.cease()
	if !leading {
		return
	}
	l := &Led{queue: q, term: term, degraded: q.degraded, reported: map[id.NodeID]presence.State{}, unsent: newUnsent()}
	q.led.Store(l)
	q.box.Post(func() {
		q.h.above.Forwarders.Leading(l)
		if !q.ledLast.Swap(false) { // else it has the leader that it had before it hibernated
			q.h.cfg.Events.EmitQueue(q.uid, event.Event{Kind: event.LeaderChanged, Detail: string(q.h.cfg.Node)})
		}
		wait.Wake(q.h.changes)
		q.heedRecord()
		q.checkNodes()
	})
}

// cease ends the present leadership, if there is one.
func (q *Member) cease() {
	l := q.led.Swap(nil)
	if l == nil {
		return
	}
	l.ceased.Store(true)
	q.h.timers.Drop(q.uid)
	q.box.Post(func() { q.h.above.Forwarders.Ceased(l) })
}

// spoke is called on the apply path when the node of a session has sent a command. If that node is
// not there, the command was in flight when the node was lost, and the queue now believes that the
// node is back (DC-1). So spoke reports once more that the node is gone.
func (q *Member) spoke(n id.NodeID) {
	l := q.led.Load()
	if l == nil || q.h.gateways.Of(n).Up {
		return
	}
	q.box.Post(func() {
		delete(l.reported, n)
		q.checkNodes()
	})
}

// heedRecord does what the queue's record asks for. It runs when this node begins to lead the
// queue, and when the record or a policy changes. Only workers call it.
func (q *Member) heedRecord() {
	q.configure()
	q.drainDelete()
}

// drainDelete starts to empty a queue that is being deleted, once in each term; the queue
// does the rest. Only workers call it.
func (q *Member) drainDelete() {
	l := q.led.Load()
	r, ok := q.h.cfg.Views.View().QueueByUID(q.uid)
	if l == nil || !ok || r.DrainDeleting == 0 || l.emptied {
		return
	}
	l.emptied = true
	q.propose(&quorumq.DrainDelete{}, func(err error) {
		if err != nil {
			q.again(func() { l.emptied = false; q.drainDelete() })
		}
	})
}
