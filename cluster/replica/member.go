package replica

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
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
	known   id.NodeID   // leader of which the gateway was told; belongs to the watcher's goroutine

	fresh bool            // this open wrote the group's first configuration
	grace *time.Timer     // until this member bootstraps the group itself; nil: it need not
	ctx   context.Context // ends when close begins
	stop  context.CancelFunc
	tasks sync.WaitGroup // goroutines that close waits for
}

// bootstrapGrace is how long a member waits for the preferred leader to bootstrap the
// group before it does so itself. All write the same configuration.
const bootstrapGrace = 2 * time.Second

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

// openMember opens the member, but hands nothing on before start.
func openMember(h *Host, r *catalog.QueueRecord) (*Member, error) {
	q := &Member{h: h, uid: r.UID, first: r.Members}
	q.ctx, q.stop = context.WithCancel(context.Background())
	q.machine = newQueueMachine(r.UID, &h.decoders, q.spoke)
	q.box.workers, q.box.act = h.workers, q.carryOut
	dir := h.cfg.Dir.Queue(r.UID)
	fault := func(err error) error { return fmt.Errorf("cluster: opening the group of queue %s: %w", r.UID, err) }
	var err error
	if q.joined, err = h.prepare(r); err != nil {
		return nil, err
	}
	storage, err := h.cfg.Storage.Queue(r.UID)
	if err != nil {
		return nil, fault(err)
	}
	snapshots, err := raftfsm.OpenSnapshots(filepath.Join(dir, datadir.SnapshotsDir), storage)
	if err != nil {
		return nil, errors.Join(fault(err), storage.Close())
	}
	if err := h.forgotten(r, storage); err != nil {
		return nil, errors.Join(fault(err), storage.Close())
	}
	q.group, err = raftfsm.Open(raftfsm.Config[quorumq.Reply, quorumq.Effects]{
		Group:     r.UID.Group(),
		Node:      h.cfg.Node,
		Machine:   q.machine,
		Effector:  q,
		Storage:   storage,
		Snapshots: snapshots,
		Transport: h.cfg.Transport.Raft(r.UID.Group()),
		Logger:    h.cfg.Logger,
		Driven:    true,
		OnChange:  q.noteChange,
		BodyCache: h.bodies,
		Hangs:     h.cfg.Disks.Hangs,
		Scarce:    h.cfg.Disks.Low,
		Clock:     h.cfg.Clock.Moment,
	})
	if err != nil {
		return nil, errors.Join(fault(err), storage.Close())
	}
	if r.Leader == h.cfg.Node && r.Changed == 0 && q.empty() {
		if err := q.group.Bootstrap(r.Members); err != nil {
			return nil, errors.Join(fault(err), q.group.Close())
		}
		q.fresh = true
	}
	return q, nil
}

// empty reports that the member has no configuration yet.
func (q *Member) empty() bool {
	s := q.group.Stats()
	return s.LastIndex == 0 && s.SnapshotIndex == 0
}

// start hands on what the group has told so far and what it will tell.
func (q *Member) start() {
	q.box.start()
	q.h.cfg.Liveness.Add(q.uid.Group(), q.group)
	if q.fresh {
		q.tasks.Go(q.campaign)
	} else if q.joined == 0 && q.empty() {
		q.grace = time.AfterFunc(bootstrapGrace, q.bootstrap)
	}
	q.running.Store(true)
	q.noteChange()
}

// noteChange lets others be told what has changed. It does not block.
func (q *Member) noteChange() {
	if q.running.Load() {
		q.h.watcher.add(q)
	}
}

// bootstrap stands in for a preferred leader that has not bootstrapped the group.
func (q *Member) bootstrap() {
	if q.ctx.Err() != nil || !q.empty() || !q.h.mayFound(q.uid) {
		return
	}
	if err := q.group.Bootstrap(q.first); err != nil && q.ctx.Err() == nil {
		q.h.cfg.Logger.Error("bootstrapping a queue's group", "queue", q.uid.String(), "error", err)
	}
}

// firstElection bounds the wait for a new group's first candidate to stand.
const firstElection = 500 * time.Millisecond

// campaign stands for election at once: a new group has no leader whose silence would
// have to be waited for, and requests for votes wait where the group is not open yet. If
// that comes to nothing, liveness takes over.
func (q *Member) campaign() {
	ctx, cancel := context.WithTimeout(q.ctx, firstElection)
	defer cancel()
	if err := q.group.Campaign(ctx); err != nil && ctx.Err() == nil {
		// Liveness was faster, or takes over.
		q.h.cfg.Logger.Debug("first election of a queue", "queue", q.uid.String(), "error", err)
	}
}

// close stops the member. What it has told before is still acted on.
func (q *Member) close() error {
	q.stop()
	if q.grace != nil {
		q.grace.Stop()
	}
	q.tasks.Wait()
	q.h.cfg.Liveness.Remove(q.uid.Group())
	err := q.group.Close()
	q.cease()
	q.h.timers.drop(q.uid)
	q.box.close()
	if err != nil {
		return fmt.Errorf("cluster: closing the group of queue %s: %w", q.uid, err)
	}
	return nil
}

// Leading is of raftfsm.Effector, on the apply path.
func (q *Member) Leading(leading bool, term uint64) {
	q.cease()
	if !leading {
		return
	}
	l := &Led{queue: q, term: term, reported: map[id.NodeID]presence{}, unsent: newUnsent()}
	q.led.Store(l)
	q.box.post(func() {
		q.h.above.Forwarders.Leading(l)
		q.h.cfg.Events.EmitQueue(q.uid, event.Event{Kind: event.LeaderChanged, Detail: string(q.h.cfg.Node)})
		wait.Wake(q.h.changes)
		q.heedRecord()
		q.checkNodes()
	})
}

// cease ends the leadership that there may be.
func (q *Member) cease() {
	l := q.led.Swap(nil)
	if l == nil {
		return
	}
	l.ceased.Store(true)
	q.h.timers.drop(q.uid)
	q.box.post(func() { q.h.above.Forwarders.Ceased(l) })
}

// spoke is told on the apply path that a session's node has spoken. If that node is not
// there, its command was on the way when it was lost, and the queue trusts it again
// (DC-1): say once more that it is gone.
func (q *Member) spoke(n id.NodeID) {
	l := q.led.Load()
	if l == nil || q.h.peers.presence(n).up {
		return
	}
	q.box.post(func() {
		delete(l.reported, n)
		q.checkNodes()
	})
}

// propose submits a command of the host's own. done may be called on the apply path.
func (q *Member) propose(c quorumq.Command, done func(error)) {
	q.submit(raftfsm.Command{Header: quorumq.AppendCommand(nil, c)}, func(_ quorumq.Reply, err error) { done(err) })
}

// submit proposes a command that members can read, and answers others itself.
func (q *Member) submit(c raftfsm.Command, done func(quorumq.Reply, error)) {
	before, ok := q.h.decoders.look(c)
	switch {
	case !ok:
		done(quorumq.Reply{Code: quorumq.CodeMalformed}, nil)
	case before.purges:
		q.purge(c, done)
	case before.annotates:
		q.annotate(before, c, done)
	default:
		q.group.Submit(c, done)
	}
}

// purge proposes a purge when no dead letter leaves any more, and takes those off its count
// that have arrived all the same, or may have.
func (q *Member) purge(c raftfsm.Command, done func(quorumq.Reply, error)) {
	l := q.led.Load()
	if l == nil {
		q.group.Submit(c, done) // whose answer says who leads
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

// heedRecord does what the queue's record asks for: when the queue begins to be led and when
// the record, or a policy, changes. Workers only.
func (q *Member) heedRecord() {
	q.configure()
	q.drainDelete()
}

// drainDelete lets a queue that is being deleted empty itself, once in each term: the rest
// is its own to do. Workers only.
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
