package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
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

// evacuate hands leaders over while this node's disk is low, until ctx ends.
func (c *Cluster) evacuate(ctx context.Context) {
	for {
		var again <-chan time.Time
		if !c.disks.Fine(c.cfg.Node) {
			c.moveLeaders(ctx)
			again = time.After(evacuateEvery)
		}
		select {
		case <-again:
		case <-c.disks.Passes():
		case <-ctx.Done():
			return
		}
	}
}

// relieve lets the groups of this node give back what they do not need of the log while the
// disk is low, until ctx ends. Those that apply commands see to it themselves; the others
// are looked at again and again.
func (c *Cluster) relieve(ctx context.Context) {
	next := time.NewTicker(relieveEvery)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if !c.disks.Low() || c.host == nil {
			continue
		}
		err := c.host.Relieve(ctx)
		if err == nil && c.disks.Low() {
			err = c.catalog.Raft().Relieve()
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, raftfsm.ErrStopped) {
			c.log.Warn("groups could not give back what they do not need of the log, trying again", "error", err)
		}
	}
}

// moveLeaders hands what this node leads to members that are there and have room. What
// has none stays: it still settles, purges and expires.
func (c *Cluster) moveLeaders(ctx context.Context) {
	var moved atomic.Uint64
	err := replica.EachOf(c.ledGroups(), func(g ledGroup) error {
		takers := slices.DeleteFunc(slices.Clone(g.members), func(n id.NodeID) bool {
			_, up := c.mux.Connected(n)
			return n == c.cfg.Node || !up || !c.disks.Fine(n)
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
		c.disks.Moved(n)
		c.log.Warn("leaders were handed over because the disk is low", "leaders", n)
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("leaders could not be handed over, trying again", "error", err)
	}
}

// diskGroups are the groups of this node, to which its disk's trouble is told.
type diskGroups struct{ c *Cluster }

// WriteAge is of disk.Groups: the catalog has a log of its own.
func (g diskGroups) WriteAge() time.Duration { return g.c.catalog.Raft().WriteAge() }

// Stopped is of disk.Groups.
func (g diskGroups) Stopped() int { return g.c.host.NotOpen() }

// FloorPassed is of disk.Groups.
func (g diskGroups) FloorPassed() { g.c.host.WakeReconcile() }

// HangsChanged is of disk.Groups.
func (g diskGroups) HangsChanged(hangs bool) {
	g.c.catalog.Raft().HangsChanged()
	g.c.host.HangsChanged()
	if hangs {
		g.c.gateway.HostHangs()
	}
}
