package raftfsm

import (
	"sync"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal"
)

// durability knows how much of a group's log is on disk, and keeps answers until what
// they speak of is.
type durability struct {
	log   Storage
	later bool // writes return before they are durable
	lag   *stopwatch
	fail  func(error)

	mu   sync.Mutex // guards what follows
	held []heldResponse
	err  error // for which nothing becomes durable any more
}

// heldResponse is handed over when all up to a position is durable. The channel has room for
// it.
type heldResponse struct {
	at     wal.Position
	to     chan<- raft.RPCResponse
	answer raft.RPCResponse
}

// newDurability has the log report from the start what is durable, if the log can do that.
func newDurability(log Storage, lag *stopwatch, fail func(error)) *durability {
	d := &durability{log: log, lag: lag, fail: fail}
	d.later = log.Notify(d.moved)
	return d
}

// wrote is called when something was appended to the log.
func (d *durability) wrote() {
	if !d.later {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil && d.log.Appended() > d.log.Durable() && d.lag.since.Load() == 0 {
		d.lag.start()
	}
}

// moved is called by the storage when more is durable, or nothing will be any more.
func (d *durability) moved(durable wal.Position, err error) {
	if err != nil {
		d.end(err)
		d.fail(err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return
	}
	kept := d.held[:0]
	for _, h := range d.held {
		if h.at <= durable {
			give(h.to, h.answer)
		} else {
			kept = append(kept, h)
		}
	}
	clear(d.held[len(kept):])
	d.held = kept
	if d.log.Appended() <= durable {
		d.lag.stop()
	} else {
		d.lag.start()
	}
}

// hold hands the answer over once everything up to the position is durable.
func (d *durability) hold(at wal.Position, to chan<- raft.RPCResponse, answer raft.RPCResponse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.err != nil:
		give(to, failed(d.err))
	case at <= d.log.Durable():
		give(to, answer)
	default:
		d.held = append(d.held, heldResponse{at, to, answer})
	}
}

// end answers all that is held, and will be, with an error.
func (d *durability) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return
	}
	d.err = err
	for _, h := range d.held {
		give(h.to, failed(err))
	}
	d.held = nil
	d.lag.stop()
}

// failed is an answer that nothing can be concluded from.
func failed(err error) raft.RPCResponse {
	return raft.RPCResponse{Response: &raft.AppendEntriesResponse{}, Error: err}
}

// give never blocks: raft's transports make room for the one answer to a call.
func give(to chan<- raft.RPCResponse, answer raft.RPCResponse) {
	select {
	case to <- answer:
	default:
		go func() { to <- answer }()
	}
}
