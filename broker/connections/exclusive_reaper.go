package connections

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

const (
	// DefaultConnectionTimeout is how long a node must be unreachable before its clients'
	// connections count as ended.
	DefaultConnectionTimeout = 10 * time.Second
	// reaperTick is the interval at which exclusiveReaper checks connections while there are exclusive
	// queues.
	reaperTick = 250 * time.Millisecond
	// maxReaperDeletes limits how many queues are deleted at the same time.
	maxReaperDeletes = 16
)

// exclusiveReaper deletes exclusive queues whose connection has ended. Each node checks its own
// connections. The catalog's leader checks those of nodes that are unreachable. When a node has
// started again and registers, the catalog deletes the queues of its earlier life. All fields
// belong to one goroutine.
type exclusiveReaper struct {
	of        *Connections
	c         Cluster
	seen      *catalog.View
	exclusive map[id.QueueUID]*catalog.QueueRecord
	away      map[id.NodeID]time.Time // nodes of their connections that are unreachable, since when
}

// EndOwned deletes exclusive queues whose connection has ended. It runs until ctx ends.
func (cs *Connections) EndOwned(ctx context.Context) {
	c := cs.cluster
	o := &exclusiveReaper{
		of: cs, c: c, seen: catalog.New().View(),
		exclusive: map[id.QueueUID]*catalog.QueueRecord{}, away: map[id.NodeID]time.Time{},
	}
	tick := time.NewTicker(reaperTick)
	defer tick.Stop()
	for {
		changed := c.ViewChanged()
		o.follow(c.View())
		o.remove(ctx, o.orphans(time.Now()))
		var again <-chan time.Time
		if len(o.exclusive) > 0 {
			again = tick.C
		}
		select {
		case <-changed:
		case <-cs.clients.Ended():
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// follow updates the set of exclusive queues with what has changed since the last view.
func (o *exclusiveReaper) follow(v *catalog.View) {
	for was, is := range v.ChangedQueues(o.seen) {
		switch {
		case is == nil:
			delete(o.exclusive, was.UID)
		case is.DrainDeleting > 0:
			delete(o.exclusive, is.UID)
		case is.Exclusive:
			o.exclusive[is.UID] = is
		}
	}
	o.seen = v
}

// orphans returns the queues whose connections have ended, as far as this node decides about them.
func (o *exclusiveReaper) orphans(now time.Time) (out []*catalog.QueueRecord) {
	if len(o.exclusive) == 0 {
		clear(o.away)
		return nil
	}
	self, epoch := o.c.Self()
	leads := o.of.catalog.Leads()
	if !leads {
		clear(o.away)
	}
	for _, q := range o.exclusive {
		switch w := q.Owner; {
		case w.Node == self:
			if w.Epoch != epoch || !o.of.clients.Alive(w.Key) {
				out = append(out, q)
			}
		case leads && o.gone(w.Node, now):
			out = append(out, q)
		}
	}
	return out
}

// gone reports whether a node has been unreachable for so long that its connections count as ended.
func (o *exclusiveReaper) gone(n id.NodeID, now time.Time) bool {
	if o.c.Connected(n) {
		delete(o.away, n)
		return false
	}
	since, known := o.away[n]
	if !known {
		o.away[n] = now
		return false
	}
	return now.Sub(since) >= o.of.timeout
}

// remove deletes queues. If that fails, the next check finds the queue again.
func (o *exclusiveReaper) remove(ctx context.Context, queues []*catalog.QueueRecord) {
	var work sync.WaitGroup
	slots := make(chan struct{}, maxReaperDeletes)
	for _, q := range queues {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			var remove catalog.Command = &catalog.DeleteQueue{VHost: q.VHost, Name: q.Name, UID: q.UID}
			if q.Durable && o.of.policies.DrainsBeforeDelete(o.seen, q) {
				remove = &catalog.DrainDeleteQueue{VHost: q.VHost, Name: q.Name, UID: q.UID}
			}
			_, err := o.of.catalog.Propose(ctx, remove)
			switch {
			case err == nil:
				o.of.log.Info("exclusive queue deleted: its connection has ended", "queue", q.UID.String(), "name", q.Name, "vhost", q.VHost)
			case ctx.Err() == nil:
				o.of.log.Warn("an exclusive queue whose connection has ended is not deleted yet",
					"queue", q.UID.String(), "name", q.Name, "vhost", q.VHost, "error", err)
			}
		})
	}
	work.Wait()
}
