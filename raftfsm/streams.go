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
	bytes atomic.Int64 // that were counted before, and those that were read
}

// Read implements io.Reader.
func (c *stream) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// begin records a stream to a member. What it returns reads the stream.
func (s *streams) begin(to raft.ServerID, data io.Reader) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[raft.ServerID]*stream{}
	}
	c := &stream{Reader: data}
	if r, is := data.(*snapshotReader); is {
		c.bytes.Store(r.counted.Load())
	}
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

// read returns how many bytes of the stream to a member were counted before it began, and read of it.
func (s *streams) read(to raft.ServerID) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.of[to]; c != nil {
		return c.bytes.Load()
	}
	return 0
}

// Sent returns this member's progress in sending a snapshot to another one, in bytes. It reads the snapshot twice:
// first to count the bytes, which may take as long as sending them, and then to send them. Sent is 0 if this member
// sends no snapshot. Raft does not report for which member it counts, so counting is the progress of all members
// without a stream. An attempt that follows a failed one begins at 0.
func (g *Group[R, E]) Sent(to id.NodeID) int64 {
	return max(g.out.streams.read(raft.ServerID(to)), g.snaps.counting())
}
