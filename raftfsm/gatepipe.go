package raftfsm

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal"
)

const (
	// pipelineResults is how many results may wait for raft to read them.
	pipelineResults = 8
	// restBytes is how many bytes of entries a call has, or one entry more, that raft has not asked for.
	restBytes = 1 << 20
)

// gatePipeline is a pipeline whose results reach raft when the leader's own log is durable
// far enough. A goroutine carries them, which lives only while calls are on their way. It
// waits for the disk at most, and what waits behind it stays in the transport; when that
// loses the peer, raft's next call fails, and raft gives the pipeline up.
type gatePipeline struct {
	raft.AppendPipeline
	gate    *gate
	peer    raft.ServerID
	results chan raft.AppendFuture
	ready   chan raft.RPCResponse
	closed  chan struct{} // by raft, which then reads no more results

	mu       sync.Mutex
	sent     []wal.Position // for each call whose result has not passed, oldest first
	carrying bool
}

// newGatePipeline returns a pipeline whose results wait until the leader's own entry is durable.
func newGatePipeline(p raft.AppendPipeline, t *gate, peer raft.ServerID) raft.AppendPipeline {
	return &gatePipeline{
		AppendPipeline: p, gate: t, peer: peer, closed: make(chan struct{}),
		results: make(chan raft.AppendFuture, pipelineResults), ready: make(chan raft.RPCResponse, 1),
	}
}

// Consumer implements raft.AppendPipeline.
func (p *gatePipeline) Consumer() <-chan raft.AppendFuture { return p.results }

// AppendEntries implements raft.AppendPipeline. For each entry that is appended raft sends what a follower lacks, but
// maxAppendEntries at most, and the rest once its commit timer fires. A driven group has no such timer: the follower would get
// one piece a minute while nothing is appended (see Push). So a large call sends the rest as well.
func (p *gatePipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if !large(req) {
		return p.send(req, resp)
	}
	sent := *req // the result is for what was sent; from req raft takes how far all of it reaches
	f, err := p.send(&sent, resp)
	if err != nil {
		return nil, err
	}
	last := &sent
	for next := p.gate.rest(last); next != nil; next = p.gate.rest(last) {
		if _, err := p.send(next, &raft.AppendEntriesResponse{}); err != nil {
			return nil, err
		}
		last = next
	}
	req.Entries = last.Entries
	return f, nil
}

// large reports whether a call may have left entries out, or may be cut by the transport.
func large(req *raft.AppendEntriesRequest) bool {
	if len(req.Entries) == maxAppendEntries {
		return true
	}
	bytes := 0
	for _, l := range req.Entries {
		bytes += len(l.Data)
	}
	return bytes > restBytes
}

// send sends one call.
func (p *gatePipeline) send(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.gate.shut() {
		return nil, errShut
	}
	p.expect(p.gate.sending())
	return p.AppendPipeline.AppendEntries(req, resp)
}

// expect prepares for the result of a call that is about to be sent.
func (p *gatePipeline) expect(at wal.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, at)
	if !p.carrying {
		p.carrying = true
		go p.carry()
	}
}

// carry hands results to raft until none is on its way.
func (p *gatePipeline) carry() {
	for at, more := p.first(); more; at, more = p.next() {
		select {
		case f := <-p.AppendPipeline.Consumer():
			p.pass(f, at)
		case <-p.closed:
			return
		}
	}
}

// first returns the position of the oldest entry on its way; there is one while carry runs.
func (p *gatePipeline) first() (wal.Position, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent[0], true
}

// next takes the oldest off; false: nothing is on its way any more.
func (p *gatePipeline) next() (wal.Position, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent[:0], p.sent[1:]...)
	p.carrying = len(p.sent) > 0
	if !p.carrying {
		return 0, false
	}
	return p.sent[0], true
}

// pass hands one result to raft.
func (p *gatePipeline) pass(f raft.AppendFuture, at wal.Position) {
	if resp := f.Response(); resp.Success && len(f.Request().Entries) > 0 {
		p.gate.stored(p.peer, f.Request())
		if err := p.gate.await(at, p.ready); err != nil {
			resp.Success = false // raft gives the pipeline up and counts nothing
		}
	}
	select {
	case p.results <- f:
	case <-p.closed:
	}
}

// Close implements raft.AppendPipeline. The last result is one that makes raft's reader
// leave: when the guard ends raft's sender, which closes the pipeline, nobody else does.
func (p *gatePipeline) Close() error {
	close(p.closed)
	for {
		select {
		case p.results <- lastResult{}:
			return p.AppendPipeline.Close()
		case <-p.results:
		}
	}
}

// lastResult is an answer without success: raft reads no other after it.
type lastResult struct{}

// Error implements raft.Future.
func (lastResult) Error() error { return raft.ErrPipelineShutdown }

// Start implements raft.AppendFuture.
func (lastResult) Start() time.Time { return time.Now() }

// Request implements raft.AppendFuture.
func (lastResult) Request() *raft.AppendEntriesRequest { return &raft.AppendEntriesRequest{} }

// Response implements raft.AppendFuture.
func (lastResult) Response() *raft.AppendEntriesResponse { return &raft.AppendEntriesResponse{} }
