package transport

import (
	"sync"

	"github.com/quorate/quorate/id"
)

// processes knows which process of each node is connected to this one, whichever end opened
// them. Two processes with one id and epoch must not share a node: what one of them is asked
// the other one would answer. mu guards it.
type processes struct {
	mu   sync.Mutex
	held map[id.NodeID]*held
}

// held is one process and the number of its streams and connections.
type held struct {
	epoch id.Epoch
	name  string // "" if unknown
	uses  int
}

// hold takes a stream of a process, until release is called. While a process has streams it
// refuses another one of the same epoch, and those of epochs before.
func (p *processes) hold(peer Peer, name string) (release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.held[peer.Node]
	switch {
	case h == nil || h.epoch < peer.Epoch:
		h = &held{epoch: peer.Epoch, name: name}
		p.held[peer.Node] = h
	case h.epoch > peer.Epoch:
		return nil, overErr(peer, h.epoch)
	case h.name != name:
		return nil, twiceErr(peer.Node)
	}
	h.uses++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		h.uses--
		if h.uses == 0 && p.held[peer.Node] == h {
			delete(p.held, peer.Node)
		}
	}), nil
}
