package replica

import (
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// submit proposes a command if members can read it, and answers it with an error otherwise.
func (q *Member) submit(c raftfsm.Command, done func(quorumq.Reply, error)) {
	before, ok := q.h.decoders.Look(c)
	switch {
	case !ok:
		done(quorumq.Reply{Code: quorumq.CodeMalformed}, nil)
	case before.Source > 0 && deletedBy(q.h.cfg.Views.View(), before.Source):
		// DL-25: it was on its way for so long that the queue may have forgotten what it has of the source.
		done(quorumq.Reply{Code: quorumq.CodeSourceGone}, nil)
	case before.Purges:
		q.purge(c, done)
	case before.Cancels:
		q.group.Submit(c, q.afterDeliveries(done))
	case before.Annotates:
		q.annotate(before, c, done)
	default:
		q.group.Submit(c, done)
	}
}

// afterDeliveries returns done for a command whose answer follows all deliveries that were assigned before: a worker
// passes it on, in turn with the deliveries. Other answers come from the apply path and overtake them. A client that
// cancels a consumer takes nothing more once it has the answer, so with auto-ack a delivery behind it would be lost.
func (q *Member) afterDeliveries(done func(quorumq.Reply, error)) func(quorumq.Reply, error) {
	return func(r quorumq.Reply, err error) {
		if err != nil || !q.box.Post(func() { done(r, nil) }) {
			done(r, err)
		}
	}
}

// purge proposes a purge when dead letters have stopped leaving. It subtracts those that have arrived nevertheless,
// or may have, from the purge's count.
func (q *Member) purge(c raftfsm.Command, done func(quorumq.Reply, error)) {
	l := q.led.Load()
	if l == nil {
		q.group.Submit(c, done) // the answer says who leads
		return
	}
	q.h.above.Forwarders.Purging(l, func(arrived uint64, release func()) {
		q.group.Submit(c, func(r quorumq.Reply, err error) {
			release()
			r.Count -= min(r.Count, arrived)
			done(r, err)
		})
	})
}

// deletedBy reports whether a queue had been created and deleted by the time of a view. By a view that is
// behind, some are not deleted that are; never the other way round.
func deletedBy(v *catalog.View, uid id.QueueUID) bool {
	_, exists := v.QueueByUID(uid)
	return !exists && uid < v.NextQueueUID()
}
