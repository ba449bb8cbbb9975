package raftfsm

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// gate is a group's way to its peers. Raft sends heartbeats from goroutines of their own,
// so that a leader that hangs in a write to disk would keep its followers quiet for ever
// (hashicorp/raft#503). While the gate is shut a leader says nothing, and they elect
// another one. The same ends the heartbeats of a group that has failed.
type gate struct {
	raft.Transport
	shut func() bool
}

var errShut = errors.New("raftfsm: this member is silent: its disk hangs or it has failed")

// AppendEntries implements raft.Transport.
func (t *gate) AppendEntries(id raft.ServerID, to raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.shut() {
		return errShut
	}
	return t.Transport.AppendEntries(id, to, req, resp)
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
	return gatePipeline{p, t}, nil
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

type gatePipeline struct {
	raft.AppendPipeline
	gate *gate
}

// AppendEntries implements raft.AppendPipeline.
func (p gatePipeline) AppendEntries(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.gate.shut() {
		return nil, errShut
	}
	return p.AppendPipeline.AppendEntries(req, resp)
}
