package replica

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Member is this node's member of one queue's group. It is the group's Effector.
type Member struct {
	h       *Host
	uid     id.QueueUID
	first   []id.NodeID   // its members at the declaration
	joined  uint64        // the change by which it began to join; 0: it is of the declaration
	machine *queueMachine // read in group.Read only
	group   *raftfsm.Group[quorumq.Reply, quorumq.Effects]
	box     mailbox

	// led is set and taken back on the apply path; workers act on it later, in order.
	led atomic.Pointer[Led]

	lost lost
	back paused
	full fullness
	drop dropping

	expiry expiry

	running atomic.Bool // start was called
	changed atomic.Bool // the watcher has it
	known   id.NodeID   // leader of which the gateway was notified; belongs to the watcher's goroutine

	fresh bool            // this open wrote the group's first configuration
	grace *time.Timer     // until this member bootstraps the group itself; nil: it need not
	ctx   context.Context // ends when close begins
	stop  context.CancelFunc
	tasks sync.WaitGroup // goroutines that close waits for
}

// UID returns the queue's UID.
func (q *Member) UID() id.QueueUID { return q.uid }

// Group returns the Raft group of which it is a member.
func (q *Member) Group() *raftfsm.Group[quorumq.Reply, quorumq.Effects] { return q.group }

// Joined returns the change by which it began to join; 0: it is of the declaration.
func (q *Member) Joined() uint64 { return q.joined }

// Life ends when the member is closed.
func (q *Member) Life() context.Context { return q.ctx }

// Led returns the queue as this node leads it, in the present term; nil: it does not, or its Lead
// command is on the way.
func (q *Member) Led() *Led { return q.led.Load() }

// Leads reports whether this member leads, by its Lead command or about to.
func (q *Member) Leads() bool {
	leader, _ := q.group.Leader()
	return leader == q.h.cfg.Node && q.group.Failed() == nil
}

// Read calls f with the queue's state of this moment, which f must not keep: nothing is applied
// meanwhile.
func (q *Member) Read(f func(*quorumq.Queue)) { q.group.Read(func() { f(q.machine.queue) }) }

// empty reports that the member has no configuration yet.
func (q *Member) empty() bool {
	s := q.group.Stats()
	return s.LastIndex == 0 && s.SnapshotIndex == 0
}

// noteChange has the change reported to others. It does not block.
func (q *Member) noteChange() {
	if q.running.Load() {
		q.h.watcher.add(q)
	}
}

// propose submits a command of the host's own. done may be called on the apply path.
func (q *Member) propose(c quorumq.Command, done func(error)) {
	q.submit(raftfsm.Command{Header: quorumq.AppendCommand(nil, c)}, func(_ quorumq.Reply, err error) { done(err) })
}

// again posts a task to the workers after a while, if the queue is still led.
func (q *Member) again(do func()) {
	l := q.led.Load()
	time.AfterFunc(hostRetry, func() {
		if l != nil && q.led.Load() == l {
			q.box.post(do)
		}
	})
}

// hostRetry is the wait before a host repeats a command of its own that found no room.
const hostRetry = 100 * time.Millisecond
