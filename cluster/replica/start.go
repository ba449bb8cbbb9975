package replica

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/replica/mailbox"
	"github.com/quorate/quorate/cluster/replica/presence"
	"github.com/quorate/quorate/cluster/replica/timer"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// New returns a host without open members, which knows what this node has recorded about members that
// hibernate. Call Start or Close next.
func New(c Config) *Host {
	if c.MaxHeldBytes == 0 {
		c.MaxHeldBytes = maxHeldBytes
	}
	nothing := catalog.New().View() // all that the first view has is new
	h := &Host{
		cfg:    c,
		bodies: raftfsm.NewBodyCache(c.BodyCacheBytes),
		// Workers wait for disks when bodies are no longer in memory.
		workers:  mailbox.Start(4 * runtime.GOMAXPROCS(0)),
		unused:   newUnused(),
		confirms: metadata.NewConfirmations(),
		gateways: presence.New(c.Node, c.Epoch),
		woken:    make(chan struct{}, 1),
		mends:    make(chan struct{}, 1),
		changes:  make(chan struct{}, 1),
		joins:    make(chan struct{}, 1),

		seen:     nothing,
		loads:    newLoads(nothing),
		ledHere:  newAwaited(),
		learned:  newAwaited(),
		todo:     map[id.QueueUID]struct{}{},
		changing: map[id.QueueUID]struct{}{},
		joiners:  map[id.QueueUID]*joiner{},
		asleep:   map[id.QueueUID]*asleep{},
		toDrop:   map[id.QueueUID]struct{}{},
		claims:   map[id.QueueUID]chan struct{}{},
		demand:   newDemand(),
		young:    map[id.QueueUID]struct{}{},
		queues:   map[id.QueueUID]*Member{},
		damaged:  map[id.QueueUID]error{},
	}
	h.timers = timer.New(c.Clock.NowMs, h.expire, h.rearm)
	h.watcher.wake = make(chan struct{}, 1)
	h.readHibernationRecords()
	return h
}

// Start begins to follow the view: the host opens the node's members, until Config.Life ends, and
// notifies above of what happens. It is called once, when above is complete.
func (h *Host) Start(above Above) {
	h.above = above
	done := h.cfg.Life.Done()
	h.loops.Go(func() { h.timers.Run(done) })
	h.loops.Go(func() { h.watcher.run(done) })
	h.loops.Go(func() { h.unused.run(h.cfg.Life, h.deleteUnused) })
	h.loops.Go(func() { h.confirms.Run(h.cfg.Life, h.cfg.Catalog.Confirm) })
	h.loops.Go(func() { h.followReach(done) })
	h.loops.Go(func() { h.hibernate(done) })
	h.loops.Go(func() { h.forget(done) })
	h.loops.Go(func() { h.askBases(done) })
	h.loops.Go(func() { h.reconcile(done) })
}

// Ready returns an error with the number of groups that the view had at the index and that are not open yet.
func (h *Host) Ready(index uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	open := len(h.queues) + len(h.damaged) + len(h.asleep)
	for _, j := range h.joiners {
		if j.waits != nil {
			open++ // it waits for others
		}
	}
	if h.opened = h.opened || h.followed >= index && open >= h.wanted && h.failures == nil; h.opened {
		return nil
	}
	return errors.Join(fmt.Errorf("cluster: the node is starting: %d of %d groups are open", open, h.wanted), h.failures)
}

// Close stops all members. Config.Life must have ended. Members whose opening has not started stay closed.
func (h *Host) Close() error {
	h.loops.Wait()
	h.mu.Lock()
	h.closed = true
	qs := h.queues
	h.queues = map[id.QueueUID]*Member{}
	for uid := range h.claims {
		h.unclaimed(uid) // a member that another node has asked to hibernate
	}
	h.mu.Unlock()
	all := make([]*Member, 0, len(qs))
	for _, q := range qs {
		all = append(all, q)
	}
	h.opening.Wait()
	// Bounds the wait of all members together: where a majority is lost, each leader would wait for as long.
	drained, cancel := context.WithTimeout(context.Background(), closeDrain)
	defer cancel()
	err := each.Of(all, maxOpening, func(q *Member) error {
		q.group.Drain(drained)
		return q.close()
	})
	h.writeHibernationRecords()
	h.workers.Close()
	return err
}

// expire proposes Expire for a queue when its time has come.
func (h *Host) expire(q id.QueueUID, at quorumq.Time) {
	if m := h.Member(q); m != nil {
		m.expire(at)
		return
	}
	if h.sleeper(q) != nil {
		// It may not open now, because the disk is full for example. If it does, its leader sets the timer anew, or has just
		// done so.
		h.timers.Again(q, 0, h.cfg.Clock.NowMs()+wakeRetry.Milliseconds())
	}
	h.WakeInBackground(q)
}

// rearm sets the timers again, because the cluster's time was set.
func (h *Host) rearm() {
	h.timers.SetBack()
	for _, q := range h.Members() {
		q.rearm()
	}
}
