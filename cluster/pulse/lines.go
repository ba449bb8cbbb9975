package pulse

import (
	"net"
	"sync"
)

// Lines are the connections by which this node and a peer exchange more than heartbeats, whichever end opened them.
// mu guards open.
type Lines struct {
	mu   sync.Mutex
	open map[*Line]struct{}
}

// Line is one of them. Its functions must not block.
type Line struct {
	Conn   *net.TCPConn
	GiveUp func(error) // is called before it is reset
	Passed func()      // a heartbeat has gone both ways; nil: nothing is to be done

	state func(*net.TCPConn) (r retransmission, known bool) // asks the system
}

// Add takes a connection in until remove is called, which may be more than once.
func (s *Lines) Add(n *Line) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*Line]struct{}{}
	}
	if n.state == nil {
		n.state = retransmissionOf
	}
	s.open[n] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, n)
	}
}

// All returns a copy, so that no lock is held while connections are given up.
func (s *Lines) All() []*Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Line
	for n := range s.open {
		all = append(all, n)
	}
	return all
}

// Reset drops what was not sent, and resets the other end at once, which would wait for that otherwise.
func Reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // it may be closed already
	_ = conn.Close()
}
