package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

const (
	// evacuateEvery is the time between two rounds of handing leaders over.
	evacuateEvery = 500 * time.Millisecond
	// evacuateTimeout bounds the transfer of one leader, and the last round before members
	// stop.
	evacuateTimeout = 2 * time.Second
	// relieveEvery is the time between two looks at what groups do not need of the log.
	relieveEvery = time.Second
)

// admit refuses what would make a queue grow, if too few of its members have room
// (traffic.ErrNoSpace).
func (d *disks) admit(uid id.QueueUID) error {
	err := d.c.Room(uid)
	if err != nil {
		d.refused.Add(1)
	}
	return err
}

// Room returns traffic.ErrNoSpace with what is short if a queue takes no messages for want of it,
// else nil.
func (c *Cluster) Room(uid id.QueueUID) error {
	d := c.disks
	if !d.scarce.Load() {
		return nil
	}
	q, ok := d.c.View().QueueByUID(uid)
	if !ok || d.room(q.Members) {
		return nil
	}
	return fmt.Errorf("%w: queue %q in vhost %q takes no messages: fewer than a majority of its members %q have room: %s",
		traffic.ErrNoSpace, q.Name, q.VHost, q.Members, d.shortage())
}

// room tells whether a majority of members is there and has room, or no member is short
// of it: then it is not for want of room if they are too few.
func (d *disks) room(members []id.NodeID) bool {
	good, scarce := 0, false
	for _, m := range members {
		if !d.fine(m) {
			scarce = true
			continue
		}
		if _, up := d.c.mux.Connected(m); up || m == d.c.cfg.Node {
			good++
		}
	}
	return !scarce || good > len(members)/2
}

// shortage names the nodes that are short of room and what to do; "" if none is.
func (d *disks) shortage() string {
	d.mu.Lock()
	all := map[id.NodeID]Disk{d.c.cfg.Node: d.own}
	v := d.c.View()
	for n, p := range d.peers {
		if _, member := v.Node(n); member {
			all[n] = p.Disk
		}
	}
	d.mu.Unlock()
	var short []string
	for n, disk := range all {
		if disk.Pressure != wal.PressureNone {
			short = append(short, disk.describe(n))
		}
	}
	if len(short) == 0 {
		return ""
	}
	slices.Sort(short)
	return strings.Join(short, "; ") +
		": free space there or make the volumes larger; consuming, settling, purging and deleting go on and make room"
}

// describe tells which limit is passed and by how much.
func (disk *Disk) describe(n id.NodeID) string {
	key, limit := "storage.disk_low", disk.Low
	if disk.Pressure == wal.PressureFloor {
		key, limit = "storage.disk_floor", disk.Floor
	}
	return fmt.Sprintf("node %q has %d bytes free on %s, and %s is %d; it recovers at %d", n, disk.Free, disk.Path, key, limit, limit+limit/4)
}

// evacuate hands leaders over while this node's disk is low, until ctx ends.
func (d *disks) evacuate(ctx context.Context) {
	for {
		var again <-chan time.Time
		if !d.fine(d.c.cfg.Node) {
			d.moveLeaders(ctx)
			again = time.After(evacuateEvery)
		}
		select {
		case <-again:
		case <-d.moves:
		case <-ctx.Done():
			return
		}
	}
}

// relieve lets the groups of this node give back what they do not need of the log while the
// disk is low, until ctx ends. Those that apply commands see to it themselves; the others
// are looked at again and again.
func (d *disks) relieve(ctx context.Context) {
	next := time.NewTicker(relieveEvery)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if !d.low.Load() || d.c.host == nil {
			continue
		}
		err := eachOf(d.c.host.all(), func(q *hosted) error {
			if !d.low.Load() || ctx.Err() != nil {
				return nil //nolint:nilerr // it is over
			}
			return q.group.Relieve()
		})
		if err == nil && d.low.Load() {
			err = d.c.catalog.group.Relieve()
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, raftfsm.ErrStopped) {
			d.c.log.Warn("groups could not give back what they do not need of the log, trying again", "error", err)
		}
	}
}

// moveLeaders hands what this node leads to members that are there and have room. What
// has none stays: it still settles, purges and expires.
func (d *disks) moveLeaders(ctx context.Context) {
	var moved atomic.Uint64
	err := eachOf(d.c.ledGroups(), func(g ledGroup) error {
		takers := slices.DeleteFunc(slices.Clone(g.members), func(n id.NodeID) bool {
			_, up := d.c.mux.Connected(n)
			return n == d.c.cfg.Node || !up || !d.fine(n)
		})
		if len(takers) == 0 {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, evacuateTimeout)
		defer cancel()
		err := g.transfer(ctx, takers[int(moved.Load())%len(takers)])
		if err == nil {
			moved.Add(1)
			return nil
		}
		return fmt.Errorf("%s: %w", g.name, err)
	})
	if n := moved.Load(); n > 0 {
		d.moved.Add(n)
		d.c.log.Warn("leaders were handed over because the disk is low", "leaders", n)
	}
	if err != nil && ctx.Err() == nil {
		d.c.log.Warn("leaders could not be handed over, trying again", "error", err)
	}
}

// heedDisk stops all members of queues of this node while its disk is full: a write that
// finds no room would end the log. Their files stay, and when there is room they are
// opened again. The reconcile loop calls it.
func (h *host) heedDisk(v *catalog.View) error {
	full := h.c.disks.full()
	h.mu.Lock()
	was := h.full
	h.mu.Unlock()
	if full == was {
		return nil
	}
	if full {
		ctx, cancel := context.WithTimeout(h.c.ctx, evacuateTimeout)
		defer cancel()
		h.c.disks.moveLeaders(ctx)
	}
	h.mu.Lock()
	h.full = full
	if !full {
		h.mu.Unlock()
		for r := range v.Queues() {
			if r.Holds(h.c.cfg.Node) {
				h.todo[r.UID] = struct{}{}
			}
		}
		return nil
	}
	all := make([]*hosted, 0, len(h.queues))
	for uid, q := range h.queues {
		if err := q.group.Failed(); err != nil && storage.Damaged(err) {
			h.damaged[uid] = err
			nudge(h.mends)
		}
		all = append(all, q)
	}
	clear(h.queues)
	h.mu.Unlock()
	err := eachOf(all, (*hosted).close)
	h.c.log.Error("members of queues are stopped until the disk has room", "members", len(all))
	h.c.disks.lookSoon()
	return err
}

// notOpen returns how many members are not open that could be.
func (h *host) notOpen() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return max(0, h.wanted-len(h.queues)-len(h.damaged)-len(h.asleep))
}
