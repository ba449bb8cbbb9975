package amqp

// each calls do for all connections. It does not hold mu meanwhile, because do may end a
// connection, and remove takes mu.
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

// add registers a connection unless the server is stopping.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isStopping() {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

// remove removes a connection that has ended, so that each no longer finds it.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}
