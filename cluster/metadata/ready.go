package metadata

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/gossip"
)

// led reports whether the catalog has a leader, or had one a moment ago.
func (g *Group) led() bool {
	if g.Leader() != "" {
		g.ledOnce.Store(true)
		g.leaderless.Store(0)
		return true
	}
	now := g.cfg.Clock.Elapsed()
	g.leaderless.CompareAndSwap(0, int64(now))
	return g.ledOnce.Load() && now-time.Duration(g.leaderless.Load()) < leaderlessGrace
}

// Ready reports what is missing before this node can do its part.
func (g *Group) Ready() error {
	if err := g.reached(); err != nil {
		return err
	}
	if !g.assurance.serves.Load() {
		return errors.New("cluster: catalog view is not confirmed yet: asking the catalog's leader")
	}
	return g.seated()
}

// reached reports what is missing before the view shows this node's registration.
func (g *Group) reached() error {
	if err := g.able(); err != nil {
		return err
	}
	if !g.Founded() {
		if err := g.unlike.Load(); err != nil {
			return *err
		}
		seen := gossip.Alive(g.cfg.Gossip())
		return fmt.Errorf("cluster: node %q is not in the cluster %q yet: founding takes %d nodes, %d are seen: %q; "+
			"if others run, check that cluster name and key are alike on all, and the addresses to join: %q",
			g.cfg.Node, g.cfg.Cluster, g.cfg.Expect, len(seen), seen, g.cfg.Join)
	}
	if !g.led() {
		return errors.New("cluster: catalog group has no leader: waiting for a majority of its nodes")
	}
	return g.admitted()
}

// able reports why this node will not take part, whatever it waits for.
func (g *Group) able() error {
	if err := g.Refusal(); err != nil {
		return err
	}
	if err := g.raft.Failed(); err != nil {
		return fmt.Errorf("cluster: catalog group has failed on this node: %w", err)
	}
	return nil
}

// admitted reports what is missing before the view shows that the catalog takes this node.
func (g *Group) admitted() error {
	if err := g.able(); err != nil {
		return err
	}
	if want, have := g.registered.Load(), g.cfg.Views.View().Index(); want == 0 || have < want {
		return fmt.Errorf("cluster: catalog view is catching up: at index %d of %d", have, want)
	}
	return nil
}
