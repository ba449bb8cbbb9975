package cluster

import (
	"slices"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// pump sends whatever is to be sent and may be: decisions first, so that what a client
// decided before it cancelled reaches the queue first, then commands, then messages.
func (q *Queue) pump(t *turn) {
	if q.blocked || !q.busyLocked() {
		return
	}
	if q.target == "" && !q.findLocked() {
		q.retryLocked("", false)
		return
	}
	for _, c := range q.consumers {
		c.pump(t)
	}
	q.ops.pump(q, t)
	for q.enqueues < maxEnqueuesInFlight {
		cmd, bodies, ok := q.publisher.NextBatch(maxBatchMessages, maxBatchBytes)
		if !ok {
			return
		}
		q.enqueues++
		f := flight{queue: q, attempt: q.attempt, kind: flightEnqueue, first: cmd.First, n: len(cmd.Messages)}
		q.sendLocked(t, f, raftfsm.Command{Header: quorumq.AppendCommand(nil, &cmd), Bodies: bodies})
	}
}

func (q *Queue) sendLocked(t *turn, f flight, c raftfsm.Command) {
	g, to := q.g, q.target
	t.sends = append(t.sends, func() { g.send(to, f, c) })
}

// findLocked chooses the node to ask: whom another node named, else whom the local member
// believes in, else the members in turn, those first to whom there is a link. A local member
// whose disk hangs may take itself for the leader long after others have elected one.
func (q *Queue) findLocked() bool {
	hangs := q.g.c.disks.Hangs()
	if hint := q.hint; hint != "" && q.reachable(hint) && (!hangs || hint != q.g.c.cfg.Node) {
		q.target, q.hint = hint, ""
		return true
	}
	q.hint = ""
	if n, hosted := q.g.c.host.leaderOf(q.uid); hosted && !hangs {
		if n == "" && q.g.c.host.sleeper(q.uid) != nil {
			q.g.c.host.wake(q.uid)
		}
		if n == "" || !q.reachable(n) {
			return false
		}
		q.target = n
		return true
	}
	r, ok := q.g.c.View().QueueByUID(q.uid)
	if !ok || len(r.Members) == 0 {
		return false
	}
	members := slices.DeleteFunc(slices.Clone(r.Members), func(n id.NodeID) bool {
		return !q.reachable(n) || hangs && n == q.g.c.cfg.Node && len(r.Members) > 1
	})
	if len(members) == 0 {
		return false
	}
	q.turn++
	q.target = members[q.turn%len(members)]
	return true
}

func (q *Queue) reachable(n id.NodeID) bool {
	if n == q.g.c.cfg.Node {
		return true
	}
	_, up := q.g.c.mux.Connected(n)
	return up
}
