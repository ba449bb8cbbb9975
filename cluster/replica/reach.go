package replica

import (
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
)

// checkNodes makes every queue that this node leads compare its sessions with what is known about
// nodes.
func (h *Host) checkNodes() {
	for _, q := range h.Members() {
		if q.led.Load() != nil {
			q.box.Post(q.checkNodes)
		}
	}
}

// Inbound records that a peer's queue stream to this node came up or went down.
func (h *Host) Inbound(p transport.Peer, up bool) {
	if h.gateways.Inbound(p, up) {
		h.checkNodes()
	}
}

// Heard records an epoch of a node that gossip reports.
func (h *Host) Heard(n id.NodeID, epoch id.Epoch) {
	if h.gateways.Heard(n, epoch) {
		h.checkNodes()
	}
}

// Ended records that a node's process has ended.
func (h *Host) Ended(n id.NodeID) {
	if h.gateways.HasEnded(n) {
		h.cfg.Logger.Info("a node's process has ended: nothing listens at its address", "peer", n)
		h.checkNodes()
	}
}

// followReach records which nodes answer, until done is closed. A connection may be up for long
// after the node at its other end has frozen, or after the network between them has failed.
func (h *Host) followReach(done <-chan struct{}) {
	for {
		changed := h.cfg.ReachChanged()
		news := false
		for r := range h.cfg.Views.View().Nodes() {
			n := r.ID
			_, up := h.cfg.Transport.Connected(n)
			if n != h.cfg.Node && h.gateways.Answers(n, !up || h.cfg.Liveness.Reaches(n)) {
				news = true
			}
		}
		if news {
			h.checkNodes()
		}
		select {
		case <-changed:
		case <-done:
			return
		}
	}
}
