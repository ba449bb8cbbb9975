package replica

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/cluster/replica/machine"
	"github.com/quorate/quorate/cluster/replica/mailbox"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Member is this node's member of one queue's group. It is the group's Effector.
type Member struct {
	h       *Host
	uid     id.QueueUID
	first   []id.NodeID      // its founders; nil: this member may not write the first configuration
	joined  uint64           // the change with which it began to join; 0: a member since the declaration
	machine *machine.Machine // read in group.Read only
	group   *raftfsm.Group[quorumq.Reply, quorumq.Effects]
	box     *mailbox.Box[effects]

	// led is set and reset on the apply path; workers act on it later, in order.
	led atomic.Pointer[Led]

	lost lost
	back paused
	// resumes has the requests that wait for a message that cannot be read, one for each consumer at most. It belongs to
	// the worker that runs the mailbox.
	resumes map[quorumq.ConsumerKey]*resume
	full    fullness
	drop    dropping
	// degraded is what was reported of dead-lettering before the queue hibernated (Led.degraded); it does not change.
	degraded string

	expiry expiry

	wakeful  wakefulness   // does not change
	restless time.Duration // how long the queue must be idle before another attempt to let it hibernate; belongs to the goroutine of these attempts

	running atomic.Bool  // start was called
	ledLast atomic.Bool  // this node led the queue when it began to hibernate, and nobody has led it since, as far as known here
	exports atomic.Int32 // that are under way; the member stays open meanwhile, because only it keeps what they read
	changed atomic.Bool  // the watcher has it in its list
	known   id.NodeID    // the leader that the gateway was last notified of; belongs to the watcher's goroutine

	fresh bool            // this open has written the group's first configuration
	grace *time.Timer     // until this member bootstraps the group itself; nil: it need not
	ctx   context.Context // ends when close begins
	stop  context.CancelFunc
	tasks sync.WaitGroup // goroutines that close waits for
}

// UID returns the queue's UID.
func (q *Member) UID() id.QueueUID { return q.uid }

// Group returns the Raft group of which it is a member.
func (q *Member) Group() *raftfsm.Group[quorumq.Reply, quorumq.Effects] { return q.group }

// Joined returns the change with which the member began to join; 0: it is a member since the
// declaration.
func (q *Member) Joined() uint64 { return q.joined }

// Life ends when the member is closed.
func (q *Member) Life() context.Context { return q.ctx }

// Led returns the queue as this node leads it in the present term; nil: it does not lead it, or its
// Lead command is not applied yet.
func (q *Member) Led() *Led { return q.led.Load() }

// Leads reports whether this member leads the group, even if its Lead command is not applied yet.
func (q *Member) Leads() bool {
	leader, _ := q.group.Leader()
	return leader == q.h.cfg.Node && q.group.Failed() == nil
}

// Read calls f with the queue's present state. Nothing is applied meanwhile, so f must not keep the
// queue.
func (q *Member) Read(f func(*quorumq.Queue)) { q.group.Read(func() { f(q.machine.Queue()) }) }

// empty reports that the member has no configuration yet.
func (q *Member) empty() bool {
	s := q.group.Stats()
	return s.LastIndex == 0 && s.SnapshotIndex == 0
}

// noteChange makes the watcher report the change. It does not block.
func (q *Member) noteChange() {
	if q.running.Load() {
		q.h.watcher.add(q)
	}
}

// propose submits a command of the host itself. done may be called on the apply path.
func (q *Member) propose(c quorumq.Command, done func(error)) {
	q.submit(raftfsm.Command{Header: quorumq.AppendCommand(nil, c)}, func(_ quorumq.Reply, err error) { done(err) })
}

// again posts a task to the workers after hostRetry, if this node still leads the queue in the same
// term.
func (q *Member) again(do func()) {
	l := q.led.Load()
	time.AfterFunc(hostRetry, func() {
		if l != nil && q.led.Load() == l {
			q.box.Post(do)
		}
	})
}

// hostRetry is the wait before a host repeats a command of its own for which there was no room.
const hostRetry = 100 * time.Millisecond
