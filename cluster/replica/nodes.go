package replica

import (
	"slices"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// checkNodes notifies the queue of nodes with sessions what it does not know yet: that they
// are there, gone, or started anew (DC-1). Workers only.
func (q *Member) checkNodes() {
	l := q.led.Load()
	if l == nil {
		return
	}
	sessions := map[id.NodeID][]quorumq.SessionKey{}
	q.group.Read(func() {
		for s := range q.machine.queue.Sessions() {
			sessions[s.Node] = append(sessions[s.Node], s)
		}
		l.unsent.keep(func(k quorumq.ConsumerKey) bool { _, there := q.machine.queue.LastMsgID(k); return there })
	})
	for n, keys := range sessions {
		p := q.h.peers.presence(n)
		for _, s := range keys {
			if p.epoch < s.Epoch {
				p = presence{epoch: s.Epoch} // not seen in that life yet
			}
		}
		over := q.h.over(n)
		if over {
			p = presence{epoch: p.epoch + 1, up: true} // a life after all that it had ends them
		}
		if l.reported[n] == p {
			continue
		}
		l.reported[n] = p
		q.reportNode(l, n, p, keys)
		if p.up && !over {
			// What the Lead command reported, or the old leader, may have found no stream.
			q.greet(keys)
		}
	}
	// A node without sessions is reported when it has some again.
	for n := range l.reported {
		if _, has := sessions[n]; !has {
			delete(l.reported, n)
		}
	}
}

// reportNode proposes what is known of a node, and then ends its consumers if its process is no more: by
// then it is known of all that they were assigned whether it left.
func (q *Member) reportNode(l *Led, n id.NodeID, p presence, sessions []quorumq.SessionKey) {
	var c quorumq.Command = &quorumq.NodeDown{Node: n, Epoch: p.epoch}
	if p.up {
		c = &quorumq.NodeUp{Node: n, Epoch: p.epoch}
	}
	q.propose(c, func(err error) {
		switch {
		case err != nil:
			q.again(func() { delete(l.reported, n); q.checkNodes() })
		case p.ended:
			q.box.post(func() {
				if l.reported[n] == p {
					q.closeConsumers(l, n, sessions)
				}
			})
		}
	})
}

// closeConsumers ends the consumers of a process that is no more, as failed: nobody will answer
// for what they hold (DC-1). What was got may still be settled on another node (DEL-5).
func (q *Member) closeConsumers(l *Led, n id.NodeID, sessions []quorumq.SessionKey) {
	ranges := false
	q.group.Read(func() {
		ranges = q.machine.queue.Config().Rules >= quorumq.RulesThird
		sessions = slices.DeleteFunc(slices.Clone(sessions), func(s quorumq.SessionKey) bool { return !q.machine.queue.Consumes(s) })
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

// greet lets gateways know who leads, and which consumers are active.
func (q *Member) greet(sessions []quorumq.SessionKey) {
	var activity []quorumq.Notice
	for _, s := range sessions {
		q.notify(quorumq.Notice{Consumer: quorumq.ConsumerKey{SessionKey: s}, Kind: quorumq.NoticeLeader})
	}
	q.group.Read(func() {
		for _, s := range sessions {
			activity = q.machine.queue.Activity(activity, s)
		}
	})
	for _, n := range activity {
		q.notify(n)
	}
}

// closeUnsent ends the session of a process that is no more; what never left is no failure
// (DEL-8). Nothing goes to its consumer from then on, or it might be delivered after all: so this
// is proposed until it is done. Workers only.
func (q *Member) closeUnsent(l *Led, s quorumq.SessionKey, u quorumq.Unsent) {
	l.unsent.closing[s] = struct{}{}
	q.propose(&quorumq.SessionClosed{Session: s, Unsent: u}, func(err error) {
		if err != nil {
			q.again(func() { q.closeUnsent(l, s, u) })
			return
		}
		q.box.post(func() { l.unsent.closed(s) })
	})
}
