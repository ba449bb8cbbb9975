package frame

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// entryOverheadBytes is what an entry takes on the wire besides its data, at most.
const entryOverheadBytes = 48

// Trim cuts entries off a call until it fits, and returns the bytes of what is left. It
// keeps at least one. Raft reads from args what it sent, so cutting is all that is needed;
// the commit index follows, because the follower knows nothing of entries cut off.
func Trim(args *raft.AppendEntriesRequest, maxBytes int) int {
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

// HeaderTo returns raft's header for the wire.
func HeaderTo(h raft.RPCHeader) *nodev1.RaftHeader {
	return &nodev1.RaftHeader{ProtocolVersion: int32(h.ProtocolVersion), Id: h.ID, Addr: h.Addr}
}

// HeaderOf returns a header of the wire as raft takes it.
func HeaderOf(h *nodev1.RaftHeader) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersion(h.GetProtocolVersion()), ID: h.GetId(), Addr: h.GetAddr()}
}

// appendRequestOf reads calls that were not written by hand. It refuses types of entries that raft would
// cut to a byte.
func appendRequestOf(p *nodev1.AppendEntriesRequest) (*raft.AppendEntriesRequest, error) {
	r := &raft.AppendEntriesRequest{
		RPCHeader: HeaderOf(p.GetHeader()), Term: p.GetTerm(),
		PrevLogEntry: p.GetPrevLogEntry(), PrevLogTerm: p.GetPrevLogTerm(), LeaderCommitIndex: p.GetLeaderCommitIndex(),
		Leader: p.GetLeader(), //nolint:staticcheck // older members send it
	}
	for _, e := range p.GetEntries() {
		if e.GetType() > 0xff {
			return nil, fmt.Errorf("entry %d has type %d, which no version of raft has", e.GetIndex(), e.GetType())
		}
		r.Entries = append(r.Entries, &raft.Log{
			Index: e.GetIndex(), Term: e.GetTerm(), Type: raft.LogType(e.GetType()), Data: e.GetData(), Extensions: e.GetExtensions(),
		})
	}
	return r, nil
}

// VoteRequest returns the call for the wire.
func VoteRequest(r *raft.RequestVoteRequest) *nodev1.RequestVoteRequest {
	return &nodev1.RequestVoteRequest{
		Header: HeaderTo(r.RPCHeader), Term: r.Term, LastLogIndex: r.LastLogIndex, LastLogTerm: r.LastLogTerm,
		LeadershipTransfer: r.LeadershipTransfer,
		Candidate:          r.Candidate, //nolint:staticcheck // older members read it
	}
}

// PreVoteRequest returns the call for the wire.
func PreVoteRequest(r *raft.RequestPreVoteRequest) *nodev1.RequestPreVoteRequest {
	return &nodev1.RequestPreVoteRequest{
		Header: HeaderTo(r.RPCHeader), Term: r.Term, LastLogIndex: r.LastLogIndex, LastLogTerm: r.LastLogTerm,
	}
}

// CallOf returns the call as raft takes it.
func CallOf(c *nodev1.RaftCall) (raft.WithRPCHeader, error) {
	switch c := c.GetRpc().(type) {
	case *nodev1.RaftCall_AppendEntries:
		return appendRequestOf(c.AppendEntries)
	case *nodev1.RaftCall_RequestVote:
		p := c.RequestVote
		return &raft.RequestVoteRequest{
			RPCHeader: HeaderOf(p.GetHeader()), Term: p.GetTerm(), LastLogIndex: p.GetLastLogIndex(), LastLogTerm: p.GetLastLogTerm(),
			LeadershipTransfer: p.GetLeadershipTransfer(),
			Candidate:          p.GetCandidate(), //nolint:staticcheck // older members send it
		}, nil
	case *nodev1.RaftCall_RequestPreVote:
		p := c.RequestPreVote
		return &raft.RequestPreVoteRequest{
			RPCHeader: HeaderOf(p.GetHeader()), Term: p.GetTerm(), LastLogIndex: p.GetLastLogIndex(), LastLogTerm: p.GetLastLogTerm(),
		}, nil
	case *nodev1.RaftCall_TimeoutNow:
		return &raft.TimeoutNowRequest{RPCHeader: HeaderOf(c.TimeoutNow.GetHeader())}, nil
	default:
		return nil, errors.New("the Raft call has no known kind: all nodes must run versions that know each other's calls")
	}
}

// FillAnswer puts raft's response into an answer. Those to AppendEntries are written by
// hand; see wire.go.
func FillAnswer(a *nodev1.RaftAnswer, resp any) error {
	switch r := resp.(type) {
	case *raft.RequestVoteResponse:
		a.Rpc = &nodev1.RaftAnswer_RequestVote{RequestVote: &nodev1.RequestVoteResponse{
			Header: HeaderTo(r.RPCHeader), Term: r.Term, Granted: r.Granted, Peers: r.Peers,
		}}
	case *raft.RequestPreVoteResponse:
		a.Rpc = &nodev1.RaftAnswer_RequestPreVote{RequestPreVote: &nodev1.RequestPreVoteResponse{
			Header: HeaderTo(r.RPCHeader), Term: r.Term, Granted: r.Granted,
		}}
	case *raft.TimeoutNowResponse:
		a.Rpc = &nodev1.RaftAnswer_TimeoutNow{TimeoutNow: &nodev1.TimeoutNowResponse{Header: HeaderTo(r.RPCHeader)}}
	default:
		return fmt.Errorf("raft answered with %T, which the transport does not know", resp)
	}
	return nil
}

// ResponseOf returns the response in an answer as raft takes it.
func ResponseOf(a *nodev1.RaftAnswer) (any, error) {
	switch c := a.GetRpc().(type) {
	case *nodev1.RaftAnswer_AppendEntries:
		p := c.AppendEntries
		return &raft.AppendEntriesResponse{
			RPCHeader: HeaderOf(p.GetHeader()), Term: p.GetTerm(), LastLog: p.GetLastLog(),
			Success: p.GetSuccess(), NoRetryBackoff: p.GetNoRetryBackoff(),
		}, nil
	case *nodev1.RaftAnswer_RequestVote:
		p := c.RequestVote
		return &raft.RequestVoteResponse{
			RPCHeader: HeaderOf(p.GetHeader()), Term: p.GetTerm(), Granted: p.GetGranted(), Peers: p.GetPeers(),
		}, nil
	case *nodev1.RaftAnswer_RequestPreVote:
		p := c.RequestPreVote
		return &raft.RequestPreVoteResponse{RPCHeader: HeaderOf(p.GetHeader()), Term: p.GetTerm(), Granted: p.GetGranted()}, nil
	case *nodev1.RaftAnswer_TimeoutNow:
		return &raft.TimeoutNowResponse{RPCHeader: HeaderOf(c.TimeoutNow.GetHeader())}, nil
	default:
		return nil, errors.New("the answer has no known kind: all nodes must run versions that know each other's calls")
	}
}

// Into copies a response to where raft wants it.
func Into[T any](resp any, to *T) error {
	r, ok := resp.(*T)
	if !ok {
		return fmt.Errorf("transport: %T came as the answer to a call that is answered by %T", resp, to)
	}
	*to = *r
	return nil
}
