package amqp

import (
	"net"
	"time"
)

// Connection is an open connection of this server.
type Connection struct {
	Name           string // both addresses, as RabbitMQ writes them
	User, VHost    string
	ClientName     string // what the client calls itself
	Channels       int
	RemoteAddr     net.Addr
	Since          time.Time
	HeartbeatEvery time.Duration // 0: none
	Blocked        bool          // its publishes are held back
}

// Connections returns those that have logged in.
func (s *Server) Connections() []Connection {
	var all []Connection
	s.each(func(c *conn) {
		if x, open := c.describe(); open {
			all = append(all, x)
		}
	})
	return all
}

// CloseConnection ends a connection with a reason that its client is told (320), and says
// whether there was one of that name.
func (s *Server) CloseConnection(name, reason string) bool {
	found := false
	s.each(func(c *conn) {
		if x, open := c.describe(); open && x.Name == name {
			found = true
			c.force(reason)
		}
	})
	return found
}

func (s *Server) each(do func(*conn)) {
	s.mu.Lock()
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		do(c)
	}
}

// add counts a connection, unless there are too many or the server stops.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= s.cfg.MaxConnections || s.isStopping() {
		return false
	}
	s.conns[c] = struct{}{}
	c.stranger = s.strangers.PushBack(c)
	if s.strangers.Len() > s.cfg.MaxStrangers {
		s.crowdOut()
	}
	return true
}

// crowdOut cuts the connection off that has not logged in for the longest time.
func (s *Server) crowdOut() {
	if first, ok := s.strangers.Remove(s.strangers.Front()).(*conn); ok {
		first.stranger = nil
		s.counters.crowdedOut.Add(1)
		s.running.Go(first.cut) // TLS may wait for a write
	}
}

// known notes that a connection has logged in.
func (s *Server) known(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(c)
}

func (s *Server) forget(c *conn) {
	if c.stranger != nil {
		s.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(c)
	delete(s.conns, c)
}
