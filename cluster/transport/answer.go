package transport

import (
	"fmt"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Answer queues a frame on the queue link that the peer opened, asked for or not:
// deliveries and notices. It never blocks and returns ErrLinkDown or ErrLinkFull.
func (m *Mux) Answer(p Peer, f *nodev1.Frame) error {
	m.accepted.mu.Lock()
	l := m.accepted.links[linkKey{p.Node, classQueue}]
	m.accepted.mu.Unlock()
	if l == nil || l.peer.Epoch != p.Epoch {
		return fmt.Errorf("%w: node %q, epoch %d, has none open to this node", ErrLinkDown, p.Node, p.Epoch)
	}
	return l.out.push(f)
}
