package raftfsm

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// gate is a group's way to its peers. Raft sends heartbeats from goroutines of their own,
// so that a leader that hangs in a write to disk would keep its followers quiet for ever
// (hashicorp/raft#503). While the gate is shut a leader says nothing, and they elect
// another one. The same ends the heartbeats of a group that has failed.
type gate struct {
	raft.Transport
	shut      func() bool
	snapshots atomic.Int32 // being sent
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

// now is AppendEntries that does not wait for a link, if the transport knows the
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
	return t.Transport.InstallSnapshot(id, to, req, resp, data)
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
