package replica

import (
	"slices"

	"github.com/quorate/quorate/cluster/replica/presence"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// checkNodes reports to the queue what it does not know yet about nodes with sessions: that they are there, gone, or
// have started again (DC-1). Only workers call it.
func (q *Member) checkNodes() {
	l := q.led.Load()
	if l == nil {
		return
	}
	sessions := map[id.NodeID][]quorumq.SessionKey{}
	q.group.Read(func() {
		for s := range q.machine.Queue().Sessions() {
			sessions[s.Node] = append(sessions[s.Node], s)
		}
		l.unsent.keep(func(k quorumq.ConsumerKey) bool { _, there := q.machine.Queue().LastMsgID(k); return there })
	})
	for n, keys := range sessions {
		p := q.h.gateways.Of(n)
		for _, s := range keys {
			if p.Epoch < s.Epoch {
				p = presence.State{Epoch: s.Epoch} // not seen in that epoch yet
			}
		}
		last, over := q.h.cfg.Views.View().Ended(n)
		if over = over && p.Epoch <= last; over {
			// The next epoch ends all sessions that it had, and the messages that its clients held need
			// not wait for it (DC-1). If the node has come back, which this view need not show, it has
			// no lower epoch, so this does not shut it out.
			p = presence.State{Epoch: last + 1, Up: true}
		}
		if l.reported[n] == p {
			continue
		}
		l.reported[n] = p
		q.reportNode(l, n, p, keys)
		if p.Up && !over {
			// The Lead command, or the old leader, may have sent notices that found no stream.
			q.greet(keys)
		}
	}
	// A node without sessions will be reported again when it has some.
	for n := range l.reported {
		if _, has := sessions[n]; !has {
			delete(l.reported, n)
		}
	}
}

// reportNode proposes what is known about a node. If the node's process has ended, it then ends the node's consumers:
// by then it is known which of their deliveries have left this node.
func (q *Member) reportNode(l *Led, n id.NodeID, p presence.State, sessions []quorumq.SessionKey) {
	var c quorumq.Command = &quorumq.NodeDown{Node: n, Epoch: p.Epoch}
	if p.Up {
		c = &quorumq.NodeUp{Node: n, Epoch: p.Epoch}
	}
	q.propose(c, func(err error) {
		switch {
		case err != nil:
			q.again(func() { delete(l.reported, n); q.checkNodes() })
		case p.Ended:
			q.box.Post(func() {
				if l.reported[n] == p {
					q.closeConsumers(l, n, sessions)
				}
			})
		}
	})
}

// closeConsumers ends the consumers of a process that has ended. What they hold counts as failed, because nobody will
// settle it (DC-1). Messages from Get may still be settled on another node (DEL-5).
func (q *Member) closeConsumers(l *Led, n id.NodeID, sessions []quorumq.SessionKey) {
	ranges := false
	q.group.Read(func() {
		ranges = q.machine.Queue().Config().Rules >= quorumq.RulesThird
		sessions = slices.DeleteFunc(slices.Clone(sessions), func(s quorumq.SessionKey) bool { return !q.machine.Queue().Consumes(s) })
	})
	for _, s := range sessions {
		if _, closing := l.unsent.closing[s]; closing {
			continue
		}
		if u := l.unsent.of(s); ranges && len(u.Ranges) > 0 {
			q.closeUnsent(l, s, u)
			continue
		}
		q.propose(&quorumq.SessionClosed{Session: s}, func(err error) {
			if err != nil {
				q.again(func() { delete(l.reported, n); q.checkNodes() })
			}
		})
	}
}

// greet informs gateways of the leader, and of which consumers are active.
func (q *Member) greet(sessions []quorumq.SessionKey) {
	var activity []quorumq.Notice
	for _, s := range sessions {
		q.notify(quorumq.Notice{Consumer: quorumq.ConsumerKey{SessionKey: s}, Kind: quorumq.NoticeLeader})
	}
	q.group.Read(func() {
		for _, s := range sessions {
			activity = q.machine.Queue().Activity(activity, s)
		}
	})
	for _, n := range activity {
		q.notify(n)
	}
}

// closeUnsent ends a session of a process that has ended; deliveries that never left this node do not count as failures
// (DEL-8). It proposes this until it is done. From then on nothing may be sent to the session's consumer, because a
// delivery that counts as unsent must not arrive after all. Only workers call it.
func (q *Member) closeUnsent(l *Led, s quorumq.SessionKey, u quorumq.Unsent) {
	l.unsent.closing[s] = struct{}{}
	q.propose(&quorumq.SessionClosed{Session: s, Unsent: u}, func(err error) {
		if err != nil {
			q.again(func() { q.closeUnsent(l, s, u) })
			return
		}
		q.box.Post(func() { l.unsent.closed(s) })
	})
}
