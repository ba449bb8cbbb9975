package cluster

import (
	"github.com/quorate/quorate/cluster/transport"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// duplex is the node's end of queue traffic: requests of peers go to the host, answers
// to the gateway.
type duplex struct{ c *Cluster }

// HandleRequest implements transport.Handler.
func (t duplex) HandleRequest(from transport.Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error) {
	t.c.host.HandleRequest(from, f, reply)
}

// HandleAnswer implements transport.Handler.
func (t duplex) HandleAnswer(from transport.Peer, f *nodev1.Frame) {
	t.c.gateway.HandleAnswer(from, f)
}

// PeerUp implements transport.Handler.
func (t duplex) PeerUp(p transport.Peer) {
	t.c.admission.AcceptedBy(p.Node)
	t.c.liveness.ConnectionChanged(p.Node, true)
	t.c.gateway.PeerUp(p)
	t.c.disks.NotifySoon()
}

// PeerDown implements transport.Handler.
func (t duplex) PeerDown(p transport.Peer) {
	t.c.liveness.ConnectionChanged(p.Node, false)
	t.c.gateway.PeerDown(p)
}

// Inbound implements transport.Handler.
func (t duplex) Inbound(p transport.Peer, up bool) {
	t.c.host.Inbound(p, up)
}
