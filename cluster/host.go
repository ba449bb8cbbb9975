package cluster

import (
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
)

// newHost makes the host of what is below it. The gateway is made of the host, and forwarders of
// dead letters of the gateway; then the host is started with both.
func (c *Cluster) newHost() *replica.Host {
	made := replica.Config{
		Node: c.cfg.Node, Epoch: c.epoch, Logger: c.log, Life: c.ctx,
		Dir: c.dir, Storage: c.storage, Clock: c.clock, Disks: c.disks, Views: c.views, Policies: c.policies,
		Liveness: c.liveness, Transport: c.mux, Catalog: c.catalog, Events: c.events, Pace: c.pace,
		BodyCacheBytes: c.cfg.BodyCacheBytes, HibernateAfter: c.cfg.HibernateAfter,
		ReachChanged: c.ReachChanged, Addressed: c.setPeer,
	}
	if c.cfg.hosting != nil {
		c.cfg.hosting(&made)
	}
	return replica.New(made)
}

// Leads reports whether this node leads a queue, as far as its member knows.
func (c *Cluster) Leads(q id.QueueUID) bool {
	leader, _ := c.host.LeaderOf(q)
	return leader == c.cfg.Node
}
