package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/raftfsm"
)

const (
	// evacuateEvery is the time between two rounds of handing leaders over.
	evacuateEvery = 500 * time.Millisecond
	// evacuateTimeout bounds the transfer of one leader.
	evacuateTimeout = 2 * time.Second
	// relieveEvery is the interval between checks for what groups no longer need of the log.
	relieveEvery = time.Second
)

// Evacuate hands leaders over while this node's disk is low, until ctx ends.
func (u *Unloader) Evacuate(ctx context.Context) {
	for {
		var again <-chan time.Time
		if !u.cfg.Disks.Fine(u.cfg.Node) {
			u.HandOver(ctx)
			again = time.After(evacuateEvery)
		}
		select {
		case <-again:
		case <-u.cfg.Disks.Passes():
		case <-ctx.Done():
			return
		}
	}
}

// Relieve lets the groups of this node give back what they do not need of the log while the
// disk is low, until ctx ends. Those that apply commands see to it themselves; the others
// are looked at again and again.
func (u *Unloader) Relieve(ctx context.Context) {
	next := time.NewTicker(relieveEvery)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if !u.cfg.Disks.Low() {
			continue
		}
		err := u.cfg.Members.Relieve(ctx)
		if err == nil && u.cfg.Disks.Low() {
			err = u.cfg.Catalog.Raft().Relieve()
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, raftfsm.ErrStopped) {
			u.cfg.Logger.Warn("groups could not give back what they do not need of the log, trying again", "error", err)
		}
	}
}

// HandOver hands the groups that this node leads to members that run and have room. A group without such a member
// stays: it still settles, purges and expires.
func (u *Unloader) HandOver(ctx context.Context) {
	var moved atomic.Uint64
	err := each.Of(u.ledGroups(), maxParallelTransfers, func(g ledGroup) error {
		takers := slices.DeleteFunc(slices.Clone(g.members), func(n id.NodeID) bool {
			_, up := u.cfg.Transport.Connected(n)
			return n == u.cfg.Node || !up || !u.cfg.Disks.Fine(n)
		})
		if len(takers) == 0 {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, evacuateTimeout)
		defer cancel()
		err := g.transfer(ctx, takers[u.turn.Add(1)%uint64(len(takers))])
		if err == nil {
			moved.Add(1)
			return nil
		}
		return fmt.Errorf("%s: %w", g.name, err)
	})
	if n := moved.Load(); n > 0 {
		u.cfg.Disks.Moved(n)
		u.cfg.Logger.Warn("leaders were handed over because the disk is low", "leaders", n)
	}
	if err != nil && ctx.Err() == nil {
		u.cfg.Logger.Warn("leaders could not be handed over, trying again", "error", err)
	}
}
