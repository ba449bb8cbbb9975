package transport

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// entryOverheadBytes is what an entry takes on the wire besides its data, at most.
const entryOverheadBytes = 48

// trim cuts entries off a call until it fits, and returns the bytes of what is left. It
// keeps at least one. Raft reads from args what it sent, so cutting is all that is needed;
// the commit index follows, because the follower knows nothing of entries cut off.
func trim(args *raft.AppendEntriesRequest, maxBytes int) int {
	size := 0
	for i, e := range args.Entries {
		n := entryOverheadBytes + len(e.Data) + len(e.Extensions)
		if i > 0 && size+n > maxBytes {
			args.Entries = args.Entries[:i]
			args.LeaderCommitIndex = min(args.LeaderCommitIndex, args.Entries[i-1].Index)
			break
		}
		size += n
	}
	return size
}

func headerTo(h raft.RPCHeader) *nodev1.RaftHeader {
	return &nodev1.RaftHeader{ProtocolVersion: int32(h.ProtocolVersion), Id: h.ID, Addr: h.Addr}
}

func headerOf(h *nodev1.RaftHeader) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersion(h.GetProtocolVersion()), ID: h.GetId(), Addr: h.GetAddr()}
}

func appendRequest(r *raft.AppendEntriesRequest) *nodev1.AppendEntriesRequest {
	p := &nodev1.AppendEntriesRequest{
		Header: headerTo(r.RPCHeader), Term: r.Term, Leader: r.Leader,
		PrevLogEntry: r.PrevLogEntry, PrevLogTerm: r.PrevLogTerm, LeaderCommitIndex: r.LeaderCommitIndex,
	}
	if len(r.Entries) > 0 {
		entries := make([]nodev1.LogEntry, len(r.Entries))
		p.Entries = make([]*nodev1.LogEntry, len(r.Entries))
		for i, e := range r.Entries {
			l := &entries[i]
			l.Index, l.Term, l.Type, l.Data, l.Extensions = e.Index, e.Term, uint32(e.Type), e.Data, e.Extensions
			p.Entries[i] = l
		}
	}
	return p
}

func appendRequestOf(p *nodev1.AppendEntriesRequest) *raft.AppendEntriesRequest {
	r := &raft.AppendEntriesRequest{
		RPCHeader: headerOf(p.GetHeader()), Term: p.GetTerm(), Leader: p.GetLeader(),
		PrevLogEntry: p.GetPrevLogEntry(), PrevLogTerm: p.GetPrevLogTerm(), LeaderCommitIndex: p.GetLeaderCommitIndex(),
	}
	if n := len(p.GetEntries()); n > 0 {
		logs := make([]raft.Log, n)
		r.Entries = make([]*raft.Log, n)
		for i, e := range p.GetEntries() {
			l := &logs[i]
			l.Index, l.Term, l.Type, l.Data, l.Extensions = e.GetIndex(), e.GetTerm(), raft.LogType(e.GetType()), e.GetData(), e.GetExtensions()
			r.Entries[i] = l
		}
	}
	return r
}

func voteRequest(r *raft.RequestVoteRequest) *nodev1.RequestVoteRequest {
	return &nodev1.RequestVoteRequest{
		Header: headerTo(r.RPCHeader), Term: r.Term, LastLogIndex: r.LastLogIndex, LastLogTerm: r.LastLogTerm,
		LeadershipTransfer: r.LeadershipTransfer, Candidate: r.Candidate,
	}
}

func preVoteRequest(r *raft.RequestPreVoteRequest) *nodev1.RequestPreVoteRequest {
	return &nodev1.RequestPreVoteRequest{
		Header: headerTo(r.RPCHeader), Term: r.Term, LastLogIndex: r.LastLogIndex, LastLogTerm: r.LastLogTerm,
	}
}

// rpcOf returns the call as raft takes it, and who says to have sent it.
func rpcOf(c *nodev1.RaftCall) (any, *nodev1.RaftHeader, error) {
	switch c := c.GetRpc().(type) {
	case *nodev1.RaftCall_AppendEntries:
		for _, e := range c.AppendEntries.GetEntries() {
			if e.GetType() > 0xff {
				return nil, nil, fmt.Errorf("entry %d has type %d, which no version of raft has", e.GetIndex(), e.GetType())
			}
		}
		return appendRequestOf(c.AppendEntries), c.AppendEntries.GetHeader(), nil
	case *nodev1.RaftCall_RequestVote:
		p := c.RequestVote
		return &raft.RequestVoteRequest{
			RPCHeader: headerOf(p.GetHeader()), Term: p.GetTerm(), LastLogIndex: p.GetLastLogIndex(), LastLogTerm: p.GetLastLogTerm(),
			LeadershipTransfer: p.GetLeadershipTransfer(), Candidate: p.GetCandidate(),
		}, p.GetHeader(), nil
	case *nodev1.RaftCall_RequestPreVote:
		p := c.RequestPreVote
		return &raft.RequestPreVoteRequest{
			RPCHeader: headerOf(p.GetHeader()), Term: p.GetTerm(), LastLogIndex: p.GetLastLogIndex(), LastLogTerm: p.GetLastLogTerm(),
		}, p.GetHeader(), nil
	case *nodev1.RaftCall_TimeoutNow:
		return &raft.TimeoutNowRequest{RPCHeader: headerOf(c.TimeoutNow.GetHeader())}, c.TimeoutNow.GetHeader(), nil
	default:
		return nil, nil, errors.New("the Raft call has no known kind: all nodes must run versions that know each other's calls")
	}
}

// fillAnswer puts raft's response into an answer.
func fillAnswer(a *nodev1.RaftAnswer, resp any) error {
	switch r := resp.(type) {
	case *raft.AppendEntriesResponse:
		a.Rpc = &nodev1.RaftAnswer_AppendEntries{AppendEntries: &nodev1.AppendEntriesResponse{
			Header: headerTo(r.RPCHeader), Term: r.Term, LastLog: r.LastLog, Success: r.Success, NoRetryBackoff: r.NoRetryBackoff,
		}}
	case *raft.RequestVoteResponse:
		a.Rpc = &nodev1.RaftAnswer_RequestVote{RequestVote: &nodev1.RequestVoteResponse{
			Header: headerTo(r.RPCHeader), Term: r.Term, Granted: r.Granted, Peers: r.Peers,
		}}
	case *raft.RequestPreVoteResponse:
		a.Rpc = &nodev1.RaftAnswer_RequestPreVote{RequestPreVote: &nodev1.RequestPreVoteResponse{
			Header: headerTo(r.RPCHeader), Term: r.Term, Granted: r.Granted,
		}}
	case *raft.TimeoutNowResponse:
		a.Rpc = &nodev1.RaftAnswer_TimeoutNow{TimeoutNow: &nodev1.TimeoutNowResponse{Header: headerTo(r.RPCHeader)}}
	default:
		return fmt.Errorf("raft answered with %T, which the transport does not know", resp)
	}
	return nil
}

var errOtherKind = errors.New("transport: the answer is of another kind than the call")

func readAppend(a *nodev1.RaftAnswer, r *raft.AppendEntriesResponse) error {
	p := a.GetAppendEntries()
	if p == nil {
		return errOtherKind
	}
	*r = raft.AppendEntriesResponse{
		RPCHeader: headerOf(p.GetHeader()), Term: p.GetTerm(), LastLog: p.GetLastLog(),
		Success: p.GetSuccess(), NoRetryBackoff: p.GetNoRetryBackoff(),
	}
	return nil
}

func readVote(a *nodev1.RaftAnswer, r *raft.RequestVoteResponse) error {
	p := a.GetRequestVote()
	if p == nil {
		return errOtherKind
	}
	*r = raft.RequestVoteResponse{RPCHeader: headerOf(p.GetHeader()), Term: p.GetTerm(), Granted: p.GetGranted(), Peers: p.GetPeers()}
	return nil
}

func readPreVote(a *nodev1.RaftAnswer, r *raft.RequestPreVoteResponse) error {
	p := a.GetRequestPreVote()
	if p == nil {
		return errOtherKind
	}
	*r = raft.RequestPreVoteResponse{RPCHeader: headerOf(p.GetHeader()), Term: p.GetTerm(), Granted: p.GetGranted()}
	return nil
}

func readTimeoutNow(a *nodev1.RaftAnswer, r *raft.TimeoutNowResponse) error {
	p := a.GetTimeoutNow()
	if p == nil {
		return errOtherKind
	}
	r.RPCHeader = headerOf(p.GetHeader())
	return nil
}
