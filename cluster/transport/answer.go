package transport

import (
	"fmt"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Answer queues a frame on the queue link that the peer opened, asked for or not:
// deliveries and notices. It never blocks and returns ErrLinkDown or ErrLinkFull.
//
// If the link ends before any byte of a queued frame was given to it, unsent, if not nil, is
// called once, from any goroutine: before Handler.Inbound reports that the link is down, and before
// a frame is taken for another link of that peer. It must not block nor call the Mux.
func (m *Mux) Answer(p Peer, f *nodev1.Frame, unsent func()) error {
	m.accepted.mu.Lock()
	l := m.accepted.links[linkKey{p.Node, classQueue}]
	open := l != nil && l.open
	m.accepted.mu.Unlock()
	if !open || l.peer.Epoch != p.Epoch {
		return fmt.Errorf("%w: node %q, epoch %d, has none open to this node", ErrLinkDown, p.Node, p.Epoch)
	}
	return l.out.add(outFrame{frame: f, unsent: unsent}, false)
}
