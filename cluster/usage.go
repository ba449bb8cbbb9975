package cluster

import "github.com/quorate/quorate/id"

// Self returns this node and which of its lives this process is.
func (c *Cluster) Self() (id.NodeID, id.Epoch) { return c.cfg.Node, c.epoch }

// Linked reports whether this node's links to another one are up, or it is this one.
func (c *Cluster) Linked(n id.NodeID) bool {
	_, up := c.mux.Connected(n)
	return up || n == c.cfg.Node
}
