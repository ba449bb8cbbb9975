package gateway

import (
	"slices"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// pump sends everything that may be sent now. Decisions go first, so that what a client decided
// before a cancel reaches the queue before the cancel; then commands, then messages.
func (q *Queue) pump(out *outbox) {
	if q.blocked || !q.busyLocked() {
		return
	}
	if q.target == "" && !q.findLocked() {
		q.retryLocked("", false)
		return
	}
	for _, c := range q.consumers {
		c.pump(out)
	}
	q.ops.pump(q, out)
	for q.enqueues < maxEnqueuesInFlight {
		cmd, bodies, ok := q.publisher.NextBatch(maxBatchMessages, maxBatchBytes)
		if !ok {
			return
		}
		q.enqueues++
		f := request{queue: q, attempt: q.attempt, kind: requestEnqueue, first: cmd.First, n: len(cmd.Messages)}
		q.sendLocked(out, f, raftfsm.Command{Header: quorumq.AppendCommand(nil, &cmd), Bodies: bodies})
	}
}

// sendLocked leaves the sending to the outbox, which runs without the lock. It fixes the target now, because the
// target can change before then.
func (q *Queue) sendLocked(out *outbox, f request, c raftfsm.Command) {
	g, to := q.g, q.target
	out.sends = append(out.sends, func() { g.send(to, f, c) })
}

// findLocked chooses the node to send to. It prefers the node that another node has named, then the
// node that the local member takes for the leader. Without either it tries the members in turn,
// first those with a connection. If the local disk hangs, the local member does not count, because
// it may take itself for the leader long after the others have elected another one.
func (q *Queue) findLocked() bool {
	hangs := q.g.cfg.Disks.Hangs()
	if hint := q.hint; hint != "" && q.reachable(hint) && (!hangs || hint != q.g.cfg.Node) {
		q.target, q.hint = hint, ""
		return true
	}
	q.hint = ""
	if n, hosted := q.g.cfg.Members.LeaderOf(q.uid); hosted && !hangs {
		if n == "" {
			q.g.cfg.Members.Rouse(q.uid)
		}
		if n == "" || !q.reachable(n) {
			return false
		}
		q.target = n
		return true
	}
	r, ok := q.g.cfg.Views.View().QueueByUID(q.uid)
	if !ok || len(r.Members) == 0 {
		return false
	}
	members := slices.DeleteFunc(slices.Clone(r.Members), func(n id.NodeID) bool {
		return !q.reachable(n) || hangs && n == q.g.cfg.Node && len(r.Members) > 1
	})
	if len(members) == 0 {
		return false
	}
	q.rotation++
	q.target = members[q.rotation%len(members)]
	return true
}

// reachable is only a hint, because the connection may break before anything is sent.
func (q *Queue) reachable(n id.NodeID) bool {
	if n == q.g.cfg.Node {
		return true
	}
	_, up := q.g.cfg.Transport.Connected(n)
	return up
}

// pump sends commands in order. A command with after waits until that consumer's decisions are
// sent.
func (l *opQueue) pump(q *Queue, out *outbox) {
	for ; l.next < len(l.ops); l.next++ {
		o := l.ops[l.next]
		if o.sent { // in an earlier attempt, or before one that is sent again
			continue
		}
		if o.after != nil && o.after.unsent() {
			return
		}
		o.sent = true
		q.sendLocked(out, request{queue: q, attempt: q.attempt, kind: requestOp, op: o}, raftfsm.Command{Header: o.header, Bodies: o.bodies})
	}
}
