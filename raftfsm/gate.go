package raftfsm

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal"
)

// gate is a group's way to its peers, and theirs to it.
//
// It keeps a member quiet that cannot do its part. Raft sends heartbeats from goroutines
// of their own, so that a leader that hangs in a write to disk would keep its followers
// quiet for ever (hashicorp/raft#503). While the gate is shut a leader says nothing, and
// they elect another one. The same ends the heartbeats of a group that has failed.
//
// It keeps back what a log that is written in the background has not earned yet. A
// follower's answer to entries leaves when all that its log had at the time is durable,
// and a leader's raft gets the answer when all that the leader's log had when it sent the
// entries is durable too. So an entry is committed only where it is on disk: on the
// leader, if it has a follower at all, and on every follower that counts. Calls without
// entries move nothing and wait for nothing.
//
// It keeps raft from installing a snapshot that has nothing new for this member. Raft would go
// back to its state, drop the entries behind it, and count them as stored nevertheless.
//
// It does not pass on to raft messages about elections that raft must not see, nor entries that raft would refuse
// without end; see Group.hear.
//
// It lets nobody but raft's main goroutine change a term; see SetHeartbeatHandler.
type gate struct {
	raft.Transport
	disk      *durability
	open      openGate
	shut      func() bool
	known     known
	stop      <-chan struct{}
	rpcs      chan raft.RPC // to raft
	snapshots atomic.Int32  // being sent
	streams   streams       // of these
	catchUps  catchUps      // of members that have got one

	one     sync.Mutex            // around a call whose answer has to wait
	answers chan raft.RPCResponse // of raft, to that call; nil before the first
}

// known is what a gate asks its member, to answer a call in raft's place. The functions may be called from
// any goroutine.
type known struct {
	covers  func(*raft.InstallSnapshotRequest) bool // the member has all that the snapshot stands for
	follows func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse
	hear    func(command any) (any, error) // what raft is to have of a call
	leads   func(term uint64) bool         // the member leads in this term
}

// receiver is a transport that hands calls to a function, which does not return before raft
// has the call, or its answer. False: done was closed before that. With others a group needs
// a goroutine that waits for calls.
type receiver interface {
	Receive(hand func(rpc raft.RPC, done <-chan struct{}) bool)
}

// openGate are gates that a test leaves open.
type openGate uint8

const (
	openFollower openGate = 1 << iota // answers before its log is durable
	openLeader                        // counts answers before its log is durable
	openSnapshot                      // publishes snapshots before its log is durable
)

var errShut = errors.New("raftfsm: this member is silent: its disk hangs or it has failed")

// newGate returns a gate to the transport t.
func newGate(t raft.Transport, d *durability, open openGate, shut func() bool, k known, stop <-chan struct{}) *gate {
	g := &gate{Transport: t, disk: d, open: open, shut: shut, known: k, stop: stop, rpcs: make(chan raft.RPC)}
	if r, can := t.(receiver); can {
		r.Receive(g.hand)
	}
	return g
}

// waits reports whether serve has to run.
func (t *gate) waits() bool {
	_, can := t.Transport.(receiver)
	return !can
}

// Consumer implements raft.Transport.
func (t *gate) Consumer() <-chan raft.RPC { return t.rpcs }

// serve hands calls to raft until the group stops.
func (t *gate) serve() {
	for {
		select {
		case rpc := <-t.Transport.Consumer():
			t.hand(rpc, nil)
		case <-t.stop:
			return
		}
	}
}

// hand gives raft a call; see receiver. Of calls whose answers have to wait it gives one at
// a time, so that what the log has when an answer comes belongs to that answer and to those
// before.
func (t *gate) hand(rpc raft.RPC, done <-chan struct{}) bool {
	call, wait := rpc, false
	command, err := t.known.hear(rpc.Command)
	if err != nil {
		give(rpc.RespChan, failed(err))
		return true
	}
	call.Command = command
	switch c := rpc.Command.(type) {
	case *raft.AppendEntriesRequest: // also if raft gets none of its entries
		wait = len(c.Entries) > 0 && t.disk.later
	case *raft.InstallSnapshotRequest:
		if t.known.covers(c) {
			t.answer(rpc.RespChan, raft.RPCResponse{Response: &raft.InstallSnapshotResponse{Term: c.Term, Success: true}})
			return true
		}
	}
	if wait {
		t.one.Lock()
		defer t.one.Unlock()
		if t.answers == nil {
			t.answers = make(chan raft.RPCResponse, 1)
		}
		call.RespChan = t.answers
	}
	select {
	case <-t.stop: // an answer that nobody has read may be left
		give(rpc.RespChan, failed(errShut))
		return true
	default:
	}
	select {
	case t.rpcs <- call:
	case <-t.stop:
		give(rpc.RespChan, failed(errShut))
		return true
	case <-done:
		return false
	}
	if !wait {
		return true
	}
	select {
	case answer := <-t.answers:
		t.answer(rpc.RespChan, answer)
	case <-t.stop:
		give(rpc.RespChan, failed(errShut))
	}
	return true
}

// answer lets an answer that counts entries as stored go as soon as it may.
func (t *gate) answer(to chan<- raft.RPCResponse, answer raft.RPCResponse) {
	if t.open&openFollower != 0 {
		give(to, answer)
		return
	}
	t.disk.hold(t.disk.log.Appended(), to, answer)
}

// sending returns the position up to which the log must be durable before an answer to
// what is sent now counts.
func (t *gate) sending() wal.Position {
	if t.open&openLeader != 0 {
		return 0
	}
	return t.disk.log.Appended()
}

// rest returns the call that follows one with entries; nil: the log ends there, or its term is over. An entry of a newer term
// is left to who leads in it.
func (t *gate) rest(sent *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	end := sent.Entries[len(sent.Entries)-1]
	last, err := t.disk.log.LastIndex()
	if err != nil || last <= end.Index || !t.known.leads(sent.Term) {
		return nil
	}
	next := *sent
	next.PrevLogEntry, next.PrevLogTerm, next.Entries = end.Index, end.Term, nil
	bytes := 0
	for i := end.Index + 1; i <= min(last, end.Index+maxAppendEntries) && bytes < restBytes; i++ {
		l := new(raft.Log)
		if err := t.disk.log.GetLog(i, l); err != nil || l.Term > sent.Term {
			break // raft comes upon the error when it reads the entry itself
		}
		next.Entries, bytes = append(next.Entries, l), bytes+len(l.Data)
	}
	if len(next.Entries) == 0 {
		return nil
	}
	return &next
}

// await waits until everything up to a position is durable. ready is used for that.
func (t *gate) await(at wal.Position, ready chan raft.RPCResponse) error {
	if at <= t.disk.log.Durable() {
		return nil
	}
	t.disk.hold(at, ready, raft.RPCResponse{})
	return (<-ready).Error
}

// AppendEntries implements raft.Transport.
func (t *gate) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.shut() {
		return errShut
	}
	at := t.sending()
	err := t.Transport.AppendEntries(id, to, req, resp)
	if err != nil || len(req.Entries) == 0 || !resp.Success {
		return err
	}
	t.stored(id, req)
	return t.await(at, make(chan raft.RPCResponse, 1))
}

// stored records what a follower has stored, if it catches up behind a snapshot.
func (t *gate) stored(by raft.ServerID, req *raft.AppendEntriesRequest) {
	if !t.catchUps.some.Load() {
		return
	}
	if last, err := t.disk.log.LastIndex(); err == nil {
		t.catchUps.stored(by, req.Entries[len(req.Entries)-1].Index, last)
	}
}

// AppendEntriesPipeline implements raft.Transport.
func (t *gate) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	if t.shut() {
		return nil, errShut
	}
	p, err := t.Transport.AppendEntriesPipeline(id, to)
	if err != nil {
		return nil, err
	}
	return newGatePipeline(p, t, id), nil
}

// now is AppendEntries that does not wait for a connection, if the transport knows the
// difference.
func (t *gate) now(to raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.shut() {
		return errShut
	}
	type prompt interface {
		AppendEntriesNow(raft.ServerID, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error
	}
	if p, ok := t.Transport.(prompt); ok {
		return p.AppendEntriesNow(to, req, resp)
	}
	return t.Transport.AppendEntries(to, raft.ServerAddress(to), req, resp)
}

// InstallSnapshot implements raft.Transport.
func (t *gate) InstallSnapshot(
	id raft.ServerID, to raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	t.snapshots.Add(1)
	defer t.snapshots.Add(-1)
	stream := t.streams.begin(id, data)
	defer t.streams.end(id, stream)
	err := t.Transport.InstallSnapshot(id, to, req, resp, stream)
	if err == nil && resp.Success {
		t.catchUps.begin(id, req) // before raft closes the reader, which holds the entries until then
	}
	return err
}

// RequestPreVote implements raft.WithPreVote.
func (t *gate) RequestPreVote(id raft.ServerID, to raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	v, ok := t.Transport.(raft.WithPreVote)
	if !ok {
		return fmt.Errorf("raftfsm: transport %T lacks raft.WithPreVote", t.Transport)
	}
	return v.RequestPreVote(id, to, req, resp)
}

// Close implements raft.WithClose.
func (t *gate) Close() error {
	if c, ok := t.Transport.(raft.WithClose); ok {
		return c.Close()
	}
	return nil
}
