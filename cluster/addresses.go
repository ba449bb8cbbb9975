package cluster

import (
	"net"
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/id"
)

// followGossip gives the transport the addresses of peers, and removes peers that are gone for good. One goroutine
// does both, so that a node that comes back is never mistaken for one that left.
func (c *Cluster) followGossip() {
	events := c.members.Events()
	var seen catalog.NodeSet
	for {
		changed := c.views.Next()
		if now := c.View().NodeSet(); now != seen {
			seen = now
			c.dropForgotten()
		}
		select {
		case e, more := <-events:
			if !more {
				return
			}
			c.heard(e.Node)
		case <-changed:
		}
	}
}

// heard handles a change that gossip reports about a node.
func (c *Cluster) heard(n gossip.Node) {
	if n.Alive {
		c.setPeer(n.ID, n.PeerAddr)
	} else {
		c.dropForgotten()
	}
	if r, known := c.View().Node(n.ID); known && r.Store != "" && r.Store != n.Store {
		return // it says nothing about the node that the cluster knows
	}
	c.host.Heard(n.ID, n.Epoch)
}

// dropForgotten ends the connections to nodes that were removed from the cluster and are gone: otherwise this node
// would try for ever to reach them, at addresses that others have by then. A removed node that still runs stays a
// peer; the refusal notifies it. A node that comes back with a fresh store is alive in gossip first.
func (c *Cluster) dropForgotten() {
	v, alive := c.View(), c.alive()
	for _, p := range c.mux.Stats().Peers {
		_, registered := v.Node(p.Node)
		_, ended := v.Ended(p.Node)
		if ended && !registered && !v.Leaves(p.Node) && !slices.Contains(alive, p.Node) {
			c.mux.RemovePeer(p.Node)
		}
	}
}

// setPeer gives the transport the address of a peer. Gossip knows addresses of living nodes better
// than the catalog, and the IP address at which it met a node better than what names
// resolve to: DNS answers from before may last for half a minute. The address that the node advertises stays the
// second choice, because the node may be behind a router.
func (c *Cluster) setPeer(n id.NodeID, addr string) {
	if n == c.cfg.Node || addr == "" {
		return
	}
	all := []string{addr}
	for _, g := range c.gossip() {
		if g.ID == n && g.Alive {
			all = peerAddresses(g)
		}
	}
	c.mux.SetPeer(n, all...)
}

// peerAddresses returns where a node may be that gossip met: the port is the one that it
// advertises.
func peerAddresses(g gossip.Node) []string {
	ip, _, err := net.SplitHostPort(g.GossipAddr)
	host, port, peerErr := net.SplitHostPort(g.PeerAddr)
	met := net.JoinHostPort(ip, port)
	switch {
	case err != nil || peerErr != nil || met == g.PeerAddr:
		return []string{g.PeerAddr}
	case net.ParseIP(host) != nil: // that is what the operator says
		return []string{g.PeerAddr, met}
	default:
		return []string{met, g.PeerAddr}
	}
}

func (c *Cluster) gossip() []gossip.Node { return c.members.Nodes() }

// alive returns the nodes that gossip holds for alive, this one included, sorted.
func (c *Cluster) alive() []id.NodeID { return gossip.Alive(c.gossip()) }
