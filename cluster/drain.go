package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/id"
)

// drainTick is the wait between two rounds of moving leaders away.
const drainTick = 50 * time.Millisecond

// Drain moves leadership of all groups off this node and waits until it leads nothing,
// naming in its error what is left when ctx ends, or when only groups are left that have
// no other member. A drained node is no longer Ready; it goes on as a member until Close.
func (c *Cluster) Drain(ctx context.Context) error {
	c.draining.Store(true)
	for {
		led, moving := c.ledGroups()
		if len(led) == 0 {
			return nil
		}
		err := eachOf(led, func(g ledGroup) error { return g.transfer(ctx, "") })
		if moving == 0 || pause(ctx, drainTick) != nil || c.ctx.Err() != nil {
			return c.undrained(ctx, err)
		}
	}
}

// ledGroup is a group that this node leads.
type ledGroup struct {
	name     string
	transfer func(ctx context.Context, to id.NodeID) error
}

// ledGroups returns what this node leads, sorted, and how many of it have other members.
func (c *Cluster) ledGroups() (led []ledGroup, movable int) {
	add := func(name string, members []id.NodeID, transfer func(context.Context, id.NodeID) error) {
		led = append(led, ledGroup{name, transfer})
		if len(members) > 1 {
			movable++
		}
	}
	v := c.View()
	for _, q := range c.host.all() {
		if !q.leads() {
			continue
		}
		name := "queue " + q.uid.String()
		if r, ok := v.QueueByUID(q.uid); ok {
			name = fmt.Sprintf("queue %q in vhost %q", r.Name, r.VHost)
		}
		add(name, q.members, q.group.TransferLeadership)
	}
	if c.catalog.leader() == c.cfg.Node {
		voters, _, err := c.catalog.group.Servers()
		if err == nil {
			add("the catalog", voters, c.catalog.group.TransferLeadership)
		}
	}
	slices.SortFunc(led, func(a, b ledGroup) int { return strings.Compare(a.name, b.name) })
	return led, movable
}

// leads tells whether this member leads, by its Lead command or about to.
func (q *hosted) leads() bool {
	leader, _ := q.group.Leader()
	return leader == q.h.c.cfg.Node && q.group.Failed() == nil
}

func (c *Cluster) undrained(ctx context.Context, last error) error {
	led, _ := c.ledGroups()
	if len(led) == 0 {
		return nil
	}
	var left []string
	for _, g := range led {
		if len(left) == maxNamed {
			left = append(left, fmt.Sprintf("and %d more", len(led)-maxNamed))
			break
		}
		left = append(left, g.name)
	}
	return fmt.Errorf("cluster: node %q still leads %s: let another member of each catch up, or accept that they pause: %w",
		c.cfg.Node, strings.Join(left, ", "), errors.Join(ctx.Err(), last))
}

// maxNamed bounds the groups that an error names.
const maxNamed = 10
