package cluster

import (
	"net"

	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/id"
)

// followGossip gives the transport the addresses of peers.
func (c *Cluster) followGossip() {
	for e := range c.members.Events() {
		if e.Node.Alive {
			c.setPeer(e.Node.ID, e.Node.PeerAddr)
		}
		if r, known := c.View().Node(e.Node.ID); known && r.Store != "" && r.Store != e.Node.Store {
			continue // it says nothing about the node that the cluster knows
		}
		c.host.Heard(e.Node.ID, e.Node.Epoch)
	}
}

// setPeer gives the transport the address of a peer. Gossip knows addresses of living nodes better
// than the catalog, and the IP address at which it met a node better than what names
// resolve to: DNS answers from before may last for half a minute. The address that the
// node advertises stays the second choice, for it may be behind a router.
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
