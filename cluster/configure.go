package cluster

import (
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// configure puts in force what the view says, if it is something else. Workers only.
func (q *hosted) configure() {
	l := q.led.Load()
	if l == nil {
		return
	}
	v := q.h.c.views.View()
	r, ok := v.QueueByUID(q.uid)
	if !ok {
		return
	}
	want := q.h.c.queueConfig(v, r)
	if l.asked != nil && *l.asked == want {
		return
	}
	asked := want
	l.asked = &asked
	have := q.config()
	want.Rules = max(want.Rules, have.Rules)                                        // a view may be behind
	if cause := q.h.c.policies.Degraded(v, r); cause != "" && cause != l.degraded { // DL-20
		q.h.c.EmitQueue(q.uid, event.Event{Kind: event.DegradedStrategy, Cause: cause})
		l.degraded = cause
	}
	if have == want {
		l.configured.Store(true)
		return
	}
	configure := raftfsm.Command{Header: quorumq.AppendCommand(nil, &quorumq.Configure{Config: want})}
	q.submit(configure, func(r quorumq.Reply, err error) {
		if err != nil {
			q.again(func() { l.asked = nil; q.configure() })
			return
		}
		l.configured.Store(true)
		if r.Count > 0 { // DL-27
			q.h.c.log.Warn("the dead letters of a queue's backlog were dropped: at-least-once ended, x-dead-letter-on-switch is drop",
				"queue", q.uid.String(), "messages", r.Count)
		}
	})
}

// config returns what the queue's machine has in force.
func (q *hosted) config() (c quorumq.Config) {
	q.group.Read(func() { c = q.machine.queue.Config() })
	return c
}

// queueConfig is what a queue's machine is to have in force by a view, in the form in which it
// keeps it: settings, and the rules of the finalised version (ADR 0016).
func (c *Cluster) queueConfig(v *catalog.View, r *catalog.QueueRecord) quorumq.Config {
	want := c.policies.QueueConfig(v, r).Normal()
	want.Rules = quorumq.RulesOf(uint8(v.Version()))
	return want
}
