package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// drainTick is the wait between two rounds of moving leaders away.
const drainTick = 50 * time.Millisecond

// Drain moves leadership of all groups off this node and waits until it leads nothing,
// naming in its error what is left when ctx ends. A drained node is no longer Ready; it
// goes on as a member until Close.
func (c *Cluster) Drain(ctx context.Context) error {
	c.draining.Store(true)
	for {
		var led []*hosted
		for _, q := range c.host.all() {
			if q.leads() {
				led = append(led, q)
			}
		}
		catalogLed := c.catalog.leader() == c.cfg.Node
		if len(led) == 0 && !catalogLed {
			return nil
		}
		err := eachOf(led, func(q *hosted) error { return q.group.TransferLeadership(ctx, "") })
		if catalogLed {
			err = errors.Join(err, c.catalog.group.TransferLeadership(ctx, ""))
		}
		if pause(ctx, drainTick) != nil || c.ctx.Err() != nil {
			return c.undrained(ctx, led, catalogLed, err)
		}
	}
}

// leads tells whether this member leads, by its Lead command or about to.
func (q *hosted) leads() bool {
	leader, _ := q.group.Leader()
	return leader == q.h.c.cfg.Node && q.group.Failed() == nil
}

func (c *Cluster) undrained(ctx context.Context, led []*hosted, catalogLed bool, last error) error {
	var left []string
	v := c.View()
	for _, q := range led {
		if !q.leads() {
			continue
		}
		name := q.uid.String()
		if r, ok := v.QueueByUID(q.uid); ok {
			name = fmt.Sprintf("queue %q in vhost %q", r.Name, r.VHost)
		}
		left = append(left, name)
	}
	if catalogLed && c.catalog.leader() == c.cfg.Node {
		left = append(left, "the catalog")
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	const most = 10
	more := ""
	if len(left) > most {
		more = fmt.Sprintf(" and %d more", len(left)-most)
		left = left[:most]
	}
	return fmt.Errorf("cluster: node %q still leads %q%s: let another member of each catch up: %w",
		c.cfg.Node, left, more, errors.Join(ctx.Err(), last))
}
