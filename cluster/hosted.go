package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// hosted is this node's member of one queue's group. It is the group's Effector.
type hosted struct {
	h       *host
	uid     id.QueueUID
	first   []id.NodeID   // its members at the declaration
	joined  uint64        // the change by which it began to join; 0: it is of the declaration
	machine *queueMachine // read in group.Read only
	group   *raftfsm.Group[quorumq.Reply, quorumq.Effects]
	box     mailbox

	// led is set and taken back on the apply path; workers act on it later, in order.
	led atomic.Pointer[Led]

	lost lost
	back heldBack
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

// openHosted opens the member, but hands nothing on before start.
func openHosted(h *host, r *catalog.QueueRecord) (*hosted, error) {
	q := &hosted{h: h, uid: r.UID, first: r.Members}
	q.ctx, q.stop = context.WithCancel(context.Background())
	q.machine = newQueueMachine(r.UID, &h.decoders, q.spoke)
	q.box.workers, q.box.act = h.workers, q.carryOut
	dir := h.c.dir.Queue(r.UID)
	fault := func(err error) error { return fmt.Errorf("cluster: opening the group of queue %s: %w", r.UID, err) }
	var err error
	if q.joined, err = h.prepare(r); err != nil {
		return nil, err
	}
	storage, err := h.c.storage.Queue(r.UID)
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
		Node:      h.c.cfg.Node,
		Machine:   q.machine,
		Effector:  q,
		Storage:   storage,
		Snapshots: snapshots,
		Transport: h.c.mux.Raft(r.UID.Group()),
		Logger:    h.c.log,
		Driven:    true,
		OnChange:  q.noteChange,
		BodyCache: h.bodies,
		Hangs:     h.c.disks.Hangs,
		Scarce:    h.c.disks.Low,
		Clock:     h.c.clock.Moment,
	})
	if err != nil {
		return nil, errors.Join(fault(err), storage.Close())
	}
	if r.Leader == h.c.cfg.Node && r.Changed == 0 && q.empty() {
		if err := q.group.Bootstrap(r.Members); err != nil {
			return nil, errors.Join(fault(err), q.group.Close())
		}
		q.fresh = true
	}
	return q, nil
}

// empty tells that the member has no configuration yet.
func (q *hosted) empty() bool {
	s := q.group.Stats()
	return s.LastIndex == 0 && s.SnapshotIndex == 0
}

// start hands on what the group has told so far and what it will tell.
func (q *hosted) start() {
	q.box.start()
	q.h.c.liveness.Add(q.uid.Group(), q.group)
	if q.fresh {
		q.tasks.Go(q.campaign)
	} else if q.joined == 0 && q.empty() {
		q.grace = time.AfterFunc(bootstrapGrace, q.bootstrap)
	}
	q.running.Store(true)
	q.noteChange()
}

// noteChange lets others be told what has changed. It does not block.
func (q *hosted) noteChange() {
	if q.running.Load() {
		q.h.watcher.add(q)
	}
}

// bootstrap stands in for a preferred leader that has not bootstrapped the group.
func (q *hosted) bootstrap() {
	if q.ctx.Err() != nil || !q.empty() || !q.h.mayFound(q.uid) {
		return
	}
	if err := q.group.Bootstrap(q.first); err != nil && q.ctx.Err() == nil {
		q.h.c.log.Error("bootstrapping a queue's group", "queue", q.uid.String(), "error", err)
	}
}

// firstElection bounds the wait for a new group's first candidate to stand.
const firstElection = 500 * time.Millisecond

// campaign stands for election at once: a new group has no leader whose silence would
// have to be waited for, and requests for votes wait where the group is not open yet. If
// that comes to nothing, liveness takes over.
func (q *hosted) campaign() {
	ctx, cancel := context.WithTimeout(q.ctx, firstElection)
	defer cancel()
	if err := q.group.Campaign(ctx); err != nil && ctx.Err() == nil {
		// Liveness was faster, or takes over.
		q.h.c.log.Debug("first election of a queue", "queue", q.uid.String(), "error", err)
	}
}

// close stops the member. What it has told before is still acted on.
func (q *hosted) close() error {
	q.stop()
	if q.grace != nil {
		q.grace.Stop()
	}
	q.tasks.Wait()
	q.h.c.liveness.Remove(q.uid.Group())
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
func (q *hosted) Leading(leading bool, term uint64) {
	q.cease()
	if !leading {
		return
	}
	l := &Led{queue: q, term: term, told: map[id.NodeID]presence{}, unsent: newUnsent()}
	q.led.Store(l)
	q.box.post(func() {
		q.h.c.forwarders.Leading(l)
		q.h.c.EmitQueue(q.uid, event.Event{Kind: event.LeaderChanged, Detail: string(q.h.c.cfg.Node)})
		q.h.c.changes.Wake()
		q.heedRecord()
		q.checkNodes()
	})
}

// cease ends the leadership that there may be.
func (q *hosted) cease() {
	l := q.led.Swap(nil)
	if l == nil {
		return
	}
	l.ceased.Store(true)
	q.h.timers.drop(q.uid)
	q.box.post(func() { q.h.c.forwarders.Ceased(l) })
}

// spoke is told on the apply path that a session's node has spoken. If that node is not
// there, its command was on the way when it was lost, and the queue trusts it again
// (DC-1): say once more that it is gone.
func (q *hosted) spoke(n id.NodeID) {
	l := q.led.Load()
	if l == nil || q.h.peers.presence(n).up {
		return
	}
	q.box.post(func() {
		delete(l.told, n)
		q.checkNodes()
	})
}

// propose submits a command of the host's own. done may be called on the apply path.
func (q *hosted) propose(c quorumq.Command, done func(error)) {
	q.submit(raftfsm.Command{Header: quorumq.AppendCommand(nil, c)}, func(_ quorumq.Reply, err error) { done(err) })
}

// submit proposes a command that members can read, and answers others itself.
func (q *hosted) submit(c raftfsm.Command, done func(quorumq.Reply, error)) {
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
func (q *hosted) purge(c raftfsm.Command, done func(quorumq.Reply, error)) {
	l := q.led.Load()
	if l == nil {
		q.group.Submit(c, done) // which tells who leads
		return
	}
	q.h.c.forwarders.Purging(l, func(arrived uint64, release func()) {
		q.group.Submit(c, func(r quorumq.Reply, err error) {
			release()
			r.Count -= min(r.Count, arrived)
			done(r, err)
		})
	})
}

// again posts a task to the workers after a while, if the queue is still led.
func (q *hosted) again(do func()) {
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
func (q *hosted) heedRecord() {
	q.configure()
	q.dissolve()
}

// dissolve lets a queue that is being deleted empty itself, once in each term: the rest
// is its own to do. Workers only.
func (q *hosted) dissolve() {
	l := q.led.Load()
	r, ok := q.h.c.views.View().QueueByUID(q.uid)
	if l == nil || !ok || r.Dissolving == 0 || l.emptied {
		return
	}
	l.emptied = true
	q.propose(&quorumq.Dissolve{}, func(err error) {
		if err != nil {
			q.again(func() { l.emptied = false; q.dissolve() })
		}
	})
}

// checkNodes tells the queue of nodes with sessions what it does not know yet: that they
// are there, gone, or started anew (DC-1). Workers only.
func (q *hosted) checkNodes() {
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
		if l.told[n] == p {
			continue
		}
		l.told[n] = p
		q.tell(l, n, p, keys)
		if p.up && !over {
			// What the Lead command told, or the old leader, may have found no link.
			q.greet(keys)
		}
	}
	// A node without sessions is told about when it has some again.
	for n := range l.told {
		if _, has := sessions[n]; !has {
			delete(l.told, n)
		}
	}
}

// tell proposes what is known of a node, and then ends its consumers if its process is no more: by
// then it is known of all that they were assigned whether it left.
func (q *hosted) tell(l *Led, n id.NodeID, p presence, sessions []quorumq.SessionKey) {
	var c quorumq.Command = &quorumq.NodeDown{Node: n, Epoch: p.epoch}
	if p.up {
		c = &quorumq.NodeUp{Node: n, Epoch: p.epoch}
	}
	q.propose(c, func(err error) {
		switch {
		case err != nil:
			q.again(func() { delete(l.told, n); q.checkNodes() })
		case p.ended:
			q.box.post(func() {
				if l.told[n] == p {
					q.closeConsumers(l, n, sessions)
				}
			})
		}
	})
}

// closeConsumers ends the consumers of a process that is no more, as failed: nobody will answer
// for what they hold (DC-1). What was got may still be settled on another node (DEL-5).
func (q *hosted) closeConsumers(l *Led, n id.NodeID, sessions []quorumq.SessionKey) {
	tells := false
	q.group.Read(func() {
		tells = q.machine.queue.Config().Rules >= quorumq.RulesThird
		sessions = slices.DeleteFunc(slices.Clone(sessions), func(s quorumq.SessionKey) bool { return !q.machine.queue.Consumes(s) })
	})
	for _, s := range sessions {
		if _, closing := l.unsent.closing[s]; closing {
			continue
		}
		if u := l.unsent.of(s); tells && len(u.Ranges) > 0 {
			q.closeUnsent(l, s, u)
			continue
		}
		q.propose(&quorumq.SessionClosed{Session: s}, func(err error) {
			if err != nil {
				q.again(func() { delete(l.told, n); q.checkNodes() })
			}
		})
	}
}

// greet lets gateways know who leads, and which consumers are active.
func (q *hosted) greet(sessions []quorumq.SessionKey) {
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
