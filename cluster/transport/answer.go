package transport

import (
	"fmt"

	"github.com/quorate/quorate/cluster/frame"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Answer queues a frame on the queue stream that the peer opened: deliveries and notices, which
// need not answer a request. It never blocks and returns ErrNotConnected or ErrStreamFull.
//
// If the stream ends before any byte of a queued frame was written to it, unsent, if not nil, is
// called once, from any goroutine, before Handler.Inbound reports that the stream is down, and
// before a frame is accepted for another stream of that peer. It must not block or call the Mux.
func (m *Mux) Answer(p Peer, f *nodev1.Frame, unsent func()) error {
	m.accepted.mu.Lock()
	l := m.accepted.streams[streamKey{p.Node, classQueue}]
	open := l != nil && l.open
	m.accepted.mu.Unlock()
	if !open || l.peer.Epoch != p.Epoch {
		return fmt.Errorf("%w: node %q, epoch %d, has none open to this node", ErrNotConnected, p.Node, p.Epoch)
	}
	return l.out.add(frame.Out{Frame: f, Unsent: unsent}, false)
}
