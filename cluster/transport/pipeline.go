package transport

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// resultsPerDepth is how many results a pipeline holds for raft, per call that may be in
// flight. Raft reads them at once, so a pipeline that fills up has lost its reader.
const resultsPerDepth = 8

// pipeline is raft's AppendEntries pipeline to one follower: raft.AppendPipeline. It is
// bound to one session: it ends with the link, and at the first call that did not
// succeed, because raft reads no result after that one. So a sender never waits for a
// reader that has left. mu guards the fields below it.
type pipeline struct {
	g       *group
	s       *session
	results chan raft.AppendFuture

	mu       sync.Mutex
	room     *sync.Cond // a call ended, or the pipeline
	inFlight int
	bytes    int
	ended    bool
}

// AppendEntriesPipeline implements raft.Transport. It fails while the peer is down; raft
// falls back to AppendEntries, which waits.
func (g *group) AppendEntriesPipeline(to raft.ServerID, _ raft.ServerAddress) (raft.AppendPipeline, error) {
	s, err := g.m.session(id.NodeID(to))
	if err != nil {
		return nil, err
	}
	p := &pipeline{g: g, s: s, results: make(chan raft.AppendFuture, resultsPerDepth*g.m.config.MaxRaftInFlight)}
	p.room = sync.NewCond(&p.mu)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipelines == nil {
		return nil, ErrClosed
	}
	g.pipelines[p] = struct{}{}
	return p, nil
}

// AppendEntries implements raft.AppendPipeline. It blocks while as many calls or bytes
// are in flight as may be; one call always may.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	c := &p.g.m.config
	size := trim(args, c.MaxAppendBytes)
	p.mu.Lock()
	for !p.ended && p.inFlight > 0 && (p.inFlight >= c.MaxRaftInFlight || p.bytes+size > c.MaxRaftBytes) {
		p.room.Wait()
	}
	if p.ended {
		p.mu.Unlock()
		return nil, raft.ErrPipelineShutdown
	}
	p.inFlight++
	p.bytes += size
	p.mu.Unlock()
	f := &appendFuture{p: p, started: time.Now(), args: args, resp: resp, size: size, done: make(chan struct{})}
	call := &nodev1.RaftCall{
		Group: uint64(p.g.id),
		Rpc:   &nodev1.RaftCall_AppendEntries{AppendEntries: appendRequest(args)},
	}
	if _, err := p.s.start(call, f); err != nil {
		p.end()
		return nil, fmt.Errorf("transport: pipeline of group %s: %w", p.g.id, err)
	}
	return f, nil
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.results }

// Close implements raft.AppendPipeline. Calls in flight may still take effect.
func (p *pipeline) Close() error {
	p.end()
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	delete(p.g.pipelines, p)
	return nil
}

func (p *pipeline) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.room.Broadcast()
}

// finish hands a result to raft.
func (p *pipeline) finish(f *appendFuture) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	p.bytes -= f.size
	p.room.Signal()
	if p.ended {
		return
	}
	select {
	case p.results <- f:
	default:
		p.ended = true
	}
	if f.err != nil || !f.resp.Success || f.resp.Term > f.args.Term {
		p.ended = true
	}
	if p.ended {
		p.room.Broadcast()
	}
}

// appendFuture is one call in a pipeline: raft.AppendFuture.
type appendFuture struct {
	p       *pipeline
	started time.Time
	args    *raft.AppendEntriesRequest
	resp    *raft.AppendEntriesResponse
	size    int
	err     error
	done    chan struct{}
}

func (f *appendFuture) complete(a *nodev1.RaftAnswer, err error) {
	if err == nil {
		err = readAppend(a, f.resp)
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
