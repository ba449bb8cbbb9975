package transport

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/frame"
	"github.com/quorate/quorate/id"
)

// pipeline is raft's AppendEntries pipeline to one follower: raft.AppendPipeline. It is
// bound to one connection: it ends with the connection, and at the first call that did not
// succeed, because raft reads no result after that one. So a sender never waits for a
// reader that has left. It also ends when the follower has answered none of the calls in flight
// for Config.CallTimeout: raft itself would wait for an answer that was lost for ever.
//
// Results must never hold up the reader of the stream. They go into a channel; what does
// not fit is carried there by a goroutine that lives only while there is such a result,
// and counts as in flight. mu guards the fields below it.
type pipeline struct {
	of      *pipelines
	group   id.GroupID
	config  *Config
	s       *peerConn
	results chan raft.AppendFuture
	closed  chan struct{} // by raft, which then reads no further results

	mu       sync.Mutex
	room     *sync.Cond      // a call ended, or the pipeline
	inFlight []*appendFuture // oldest first
	bytes    int
	heard    time.Time       // the last time at which a call was answered, a result read, or calls began
	watch    *time.Timer     // checks whether an answer is overdue; nil while nothing is on its way
	late     []*appendFuture // results that found the channel full, in order
	carrying bool            // carry runs
	ended    bool            // takes no more calls
}

// pipelines are those of a group. mu guards live, which is nil once the group has ended.
type pipelines struct {
	mu   sync.Mutex
	live map[*pipeline]struct{}
}

// begin returns a pipeline on a connection; ErrClosed after end.
func (s *pipelines) begin(g id.GroupID, c *Config, pc *peerConn) (*pipeline, error) {
	p := &pipeline{of: s, group: g, config: c, s: pc, results: make(chan raft.AppendFuture, 2*c.MaxRaftInFlight), closed: make(chan struct{})}
	p.room = sync.NewCond(&p.mu)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		return nil, ErrClosed
	}
	s.live[p] = struct{}{}
	return p, nil
}

// remove takes off a pipeline that raft has closed.
func (s *pipelines) remove(p *pipeline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, p)
}

// end ends all, and lets none begin.
func (s *pipelines) end() {
	s.mu.Lock()
	live := s.live
	s.live = nil
	s.mu.Unlock()
	for p := range live {
		p.end()
	}
}

// AppendEntries implements raft.AppendPipeline. It blocks while as many calls or bytes
// are in flight as may be; one call always may.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	c := p.config
	size := frame.Trim(args, c.MaxAppendBytes)
	p.mu.Lock()
	for n := p.unread(); !p.ended && n > 0 && (n >= c.MaxRaftInFlight || p.bytes+size > c.MaxRaftBytes); n = p.unread() {
		p.room.Wait()
	}
	if p.ended {
		p.mu.Unlock()
		return nil, raft.ErrPipelineShutdown
	}
	f := &appendFuture{p: p, started: time.Now(), args: args, resp: resp, size: size, done: make(chan struct{})}
	p.begin(f)
	p.mu.Unlock()
	request, err := p.s.register(f)
	if err == nil {
		p.mu.Lock()
		f.request = request
		p.mu.Unlock()
		err = p.s.send(p.group, request, frame.Out{Call: &frame.AppendCall{Group: uint64(p.group), Request: request, Args: *args}})
	}
	if err != nil {
		p.end()
		return nil, fmt.Errorf("transport: pipeline of group %s: %w", p.group, err)
	}
	return f, nil
}

// unread returns how many calls have no result that raft has read. mu is held.
func (p *pipeline) unread() int { return len(p.inFlight) + len(p.late) }

// begin registers a call that is about to be sent. mu is held.
func (p *pipeline) begin(f *appendFuture) {
	if p.unread() == 0 {
		p.heard = f.started
		if p.watch == nil {
			p.watch = time.AfterFunc(p.config.CallTimeout, p.overdue)
		}
	}
	p.inFlight = append(p.inFlight, f)
	p.bytes += f.size
}

// overdue ends the pipeline if no call in flight was answered, and no result read, in time.
func (p *pipeline) overdue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.unread() == 0 {
		p.watch = nil
		return
	}
	most := p.config.CallTimeout
	if rest := most - time.Since(p.heard); rest > 0 {
		p.watch.Reset(rest)
		return
	}
	p.s.l.log.Warn("a follower has not answered: what was sent to it is sent again",
		"peer", p.s.node, "group", p.group.String(), "calls", len(p.inFlight), "unread", len(p.late), "timeout", most)
	late := &appendFuture{
		p: p, started: p.heard, args: &raft.AppendEntriesRequest{}, resp: &raft.AppendEntriesResponse{}, done: make(chan struct{}),
		err: fmt.Errorf("transport: node %q did not answer group %s within %v", p.s.node, p.group, most),
	}
	close(late.done)
	for _, f := range p.inFlight {
		if p.s.forget(f.request) {
			f.err = late.err
			close(f.done)
		}
	}
	p.stop()
	p.deliver(late) // without success: raft reads no other
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.results }

// Close implements raft.AppendPipeline; it is called once. Calls in flight may still take
// effect.
func (p *pipeline) Close() error {
	p.end()
	close(p.closed)
	p.of.remove(p)
	return nil
}

// end wakes senders that wait for room; they find that the pipeline has ended.
func (p *pipeline) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

// stop refuses further calls. mu is held.
func (p *pipeline) stop() {
	p.ended = true
	if p.watch != nil {
		p.watch.Stop()
	}
	p.room.Broadcast()
}

// finish hands a result to raft.
func (p *pipeline) finish(f *appendFuture) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.inFlight, f); i >= 0 {
		p.inFlight = slices.Delete(p.inFlight, i, i+1)
	}
	p.heard = time.Now()
	p.bytes -= f.size
	p.room.Signal()
	if p.ended {
		return
	}
	if f.err != nil || !f.resp.Success || f.resp.Term > f.args.Term {
		p.stop()
	}
	p.deliver(f)
}

// deliver puts a result where raft reads it. mu is held.
func (p *pipeline) deliver(f *appendFuture) {
	if !p.carrying {
		select {
		case p.results <- f:
			return
		default:
			p.carrying = true
			go p.carry()
		}
	}
	p.late = append(p.late, f)
}

// carry hands late results to raft as it reads.
func (p *pipeline) carry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.late) > 0 {
		f := p.late[0]
		p.mu.Unlock()
		select {
		case p.results <- f:
		case <-p.closed:
		}
		p.mu.Lock()
		p.late, p.heard = p.late[1:], time.Now()
		p.room.Signal()
	}
	p.carrying = false
}

// appendFuture is one call in a pipeline: raft.AppendFuture.
type appendFuture struct {
	p       *pipeline
	started time.Time
	args    *raft.AppendEntriesRequest
	resp    *raft.AppendEntriesResponse
	size    int
	request uint64 // 0: not registered yet; p.mu guards it
	err     error
	done    chan struct{}
}

// complete implements waiter. It first fills in the answer, then wakes whoever waits for it.
func (f *appendFuture) complete(resp any, err error) {
	if err == nil {
		err = frame.Into(resp, f.resp)
	}
	f.err = err
	close(f.done)
	f.p.finish(f)
}

// Error implements raft.Future: it waits for the answer.
func (f *appendFuture) Error() error {
	<-f.done
	return f.err
}

// Start implements raft.AppendFuture.
func (f *appendFuture) Start() time.Time { return f.started }

// Request implements raft.AppendFuture.
func (f *appendFuture) Request() *raft.AppendEntriesRequest { return f.args }

// Response implements raft.AppendFuture.
func (f *appendFuture) Response() *raft.AppendEntriesResponse { return f.resp }
