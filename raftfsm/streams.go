package raftfsm

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// streams counts what was read of the snapshots that are being sent.
type streams struct {
	mu sync.Mutex
	of map[raft.ServerID]*stream
}

// stream is one of them.
type stream struct {
	io.Reader
	bytes atomic.Int64 // that were read
}

// Read implements io.Reader.
func (c *stream) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// begin notes a stream to a member, which is read by what it returns.
func (s *streams) begin(to raft.ServerID, data io.Reader) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[raft.ServerID]*stream{}
	}
	c := &stream{Reader: data}
	s.of[to] = c
	return c
}

// end forgets a stream, unless there is a newer one: that of an earlier leadership may end late.
func (s *streams) end(to raft.ServerID, c *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[to] == c {
		delete(s.of, to)
	}
}

// read returns how many bytes were read of the stream to a member.
func (s *streams) read(to raft.ServerID) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.of[to]; c != nil {
		return c.bytes.Load()
	}
	return 0
}

// Sent returns how many bytes of a snapshot this member has sent so far to another one; 0 if it sends none. An attempt that
// follows a failed one begins at 0.
func (g *Group[R, E]) Sent(to id.NodeID) int64 { return g.out.streams.read(raft.ServerID(to)) }
