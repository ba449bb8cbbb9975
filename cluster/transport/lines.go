package transport

import (
	"net"
	"sync"
)

// peerLines are the connections by which this node and a peer exchange more than heartbeats, whichever end opened them.
// mu guards open.
type peerLines struct {
	mu   sync.Mutex
	open map[*line]struct{}
}

// line is one of them. Its functions must not block.
type line struct {
	conn   *net.TCPConn
	state  func(*net.TCPConn) (r retransmission, known bool) // asks the system
	giveUp func(error)                                       // is called before it is reset
	passed func()                                            // a heartbeat has gone both ways; nil: nothing is to be done
}

// add takes a connection in until remove is called, which may be more than once.
func (s *peerLines) add(n *line) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*line]struct{}{}
	}
	s.open[n] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, n)
	}
}

// all returns a copy, so that no lock is held while connections are given up.
func (s *peerLines) all() []*line {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*line
	for n := range s.open {
		all = append(all, n)
	}
	return all
}

// reset drops what was not sent, and resets the other end at once, which would wait for that otherwise.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // it may be closed already
	_ = conn.Close()
}
