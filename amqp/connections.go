package amqp

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
