package replica

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/replica/machine"
	"github.com/quorate/quorate/cluster/replica/mailbox"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// bootstrapGrace is how long a member waits for the preferred leader to bootstrap the
// group before it does so itself. All write the same configuration.
const bootstrapGrace = 2 * time.Second

// openMember opens the member, but passes nothing on before start. current means that the record is of a view that is
// (Host.Current).
func openMember(h *Host, r *catalog.QueueRecord, current bool) (*Member, error) {
	q := &Member{h: h, uid: r.UID, resumes: map[quorumq.ConsumerKey]*resume{}}
	q.ctx, q.stop = context.WithCancel(context.Background())
	q.machine = machine.New(r.UID, &h.decoders, q.spoke)
	q.box = mailbox.New(h.workers, q.carryOut)
	if a := h.sleeper(r.UID); a != nil {
		q.ledLast.Store(a.leader == h.cfg.Node)
		q.degraded = a.degraded
		q.full.seen, q.full.is, q.full.reported = a.full, a.full, a.full
	}
	dir := h.cfg.Dir.Queue(r.UID)
	fault := func(err error) error { return fmt.Errorf("cluster: opening the group of queue %s: %w", r.UID, err) }
	var err error
	var base raftfsm.Base
	if q.joined, base, err = h.prepare(r, current); err != nil {
		return nil, err
	}
	if q.joined == 0 {
		q.first = h.founders(r)
	}
	storage, err := h.cfg.Storage.Queue(r.UID)
	if err != nil {
		return nil, fault(err)
	}
	snapshots, err := raftfsm.OpenSnapshots(filepath.Join(dir, datadir.SnapshotsDir), storage)
	if err != nil {
		return nil, errors.Join(fault(err), storage.Close())
	}
	if err := h.forgotten(r, q.first != nil, storage); err != nil {
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
		Pipeline:  &h.pipeline,
		Hangs:     h.cfg.Disks.Hangs,
		Scarce:    h.cfg.Disks.Low,
		Clock:     h.cfg.Clock.Moment,
		Base:      base,
	})
	if err != nil {
		return nil, errors.Join(fault(err), storage.Close())
	}
	if r.Leader == h.cfg.Node && q.first != nil && q.empty() {
		if err := q.group.Bootstrap(q.first); err != nil {
			return nil, errors.Join(fault(err), q.group.Close())
		}
		q.fresh = true
	}
	return q, nil
}

// start passes on what the group has reported so far, and what it will report.
func (q *Member) start() {
	q.box.Start()
	q.h.cfg.Liveness.Add(q.uid.Group(), q.group)
	if q.fresh {
		q.tasks.Go(q.campaign)
	} else if q.first != nil && q.empty() {
		q.grace = time.AfterFunc(bootstrapGrace, q.bootstrap)
	}
	q.running.Store(true)
	q.noteChange()
}

// bootstrap bootstraps the group in place of a preferred leader that has not done so.
func (q *Member) bootstrap() {
	r, exists := q.h.cfg.Views.View().QueueByUID(q.uid)
	if q.ctx.Err() != nil || !q.empty() || !exists || q.h.founders(r) == nil {
		return
	}
	if err := q.group.Bootstrap(q.first); err != nil && q.ctx.Err() == nil {
		q.h.cfg.Logger.Error("bootstrapping a queue's group", "queue", q.uid.String(), "error", err)
	}
}

// firstElection limits how long a new group waits for its first candidate.
const firstElection = 500 * time.Millisecond

// campaign stands for election at once. A new group has no leader, so there is no silence to wait
// for, and requests for votes wait where the group is not open yet. If the campaign fails, liveness
// takes over.
func (q *Member) campaign() {
	ctx, cancel := context.WithTimeout(q.ctx, firstElection)
	defer cancel()
	if err := q.group.Campaign(ctx); err != nil && ctx.Err() == nil {
		// Liveness was faster, or takes over.
		q.h.cfg.Logger.Debug("first election of a queue", "queue", q.uid.String(), "error", err)
	}
}

// close stops the member. What it has reported before is still acted on.
func (q *Member) close() error {
	q.stop()
	if q.grace != nil {
		q.grace.Stop()
	}
	q.tasks.Wait()
	q.h.cfg.Liveness.Remove(q.uid.Group())
	err := q.group.Close()
	q.cease()
	q.h.timers.Drop(q.uid)
	q.box.Close()
	if err != nil {
		return fmt.Errorf("cluster: closing the group of queue %s: %w", q.uid, err)
	}
	return nil
}
