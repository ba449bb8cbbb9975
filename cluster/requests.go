package cluster

import (
	"github.com/quorate/quorate/cluster/transport"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// duplex is the node's end of queue traffic: requests of peers go to the host, answers
// to the gateway.
type duplex struct{ c *Cluster }

// HandleRequest is of transport.Handler.
func (t duplex) HandleRequest(from transport.Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error) {
	t.c.host.HandleRequest(from, f, reply)
}

// HandleAnswer is of transport.Handler.
func (t duplex) HandleAnswer(from transport.Peer, f *nodev1.Frame) {
	t.c.gateway.HandleAnswer(from, f)
}

// LinkUp is of transport.Handler.
func (t duplex) LinkUp(p transport.Peer) {
	t.c.admission.AcceptedBy(p.Node)
	t.c.liveness.LinkChanged(p.Node, true)
	t.c.gateway.LinkUp(p)
	t.c.disks.TellSoon()
}

// LinkDown is of transport.Handler.
func (t duplex) LinkDown(p transport.Peer) {
	t.c.liveness.LinkChanged(p.Node, false)
	t.c.gateway.LinkDown(p)
}

// Inbound is of transport.Handler.
func (t duplex) Inbound(p transport.Peer, up bool) {
	t.c.host.Inbound(p, up)
}
