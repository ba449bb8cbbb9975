package raftfsm

import (
	"time"

	"github.com/hashicorp/raft"
)

// contactShare is the share of raft's heartbeat timeout within which raft itself must have heard from its
// leader, or it gets the next heartbeat. Otherwise a follower of a leader at rest would campaign.
const contactShare = 4

// SetHeartbeatHandler implements raft.Transport. A transport calls the handler beside raft's main
// goroutine, which may be waiting for the disk. Raft's own handler may store a term: if a heartbeat of
// term 6 comes while the main goroutine stores term 7, the member goes back to term 6 after it has voted
// in term 7, and may then vote for itself in term 7. So the gate answers the heartbeats that change
// nothing, and hands raft the others like every other call.
func (t *gate) SetHeartbeatHandler(handler func(raft.RPC)) {
	if handler != nil {
		handler = t.heartbeat
	}
	t.Transport.SetHeartbeatHandler(handler)
}

// heartbeat answers before it returns. A group that has stopped does not answer, as raft does not.
func (t *gate) heartbeat(rpc raft.RPC) {
	select {
	case <-t.stop:
		return
	default:
	}
	if a, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
		if answer := t.known.follows(a); answer != nil {
			give(rpc.RespChan, raft.RPCResponse{Response: answer})
			return
		}
	}
	call, answers := rpc, make(chan raft.RPCResponse, 1)
	call.RespChan = answers
	t.hand(call, nil)
	select {
	case answer := <-answers:
		give(rpc.RespChan, answer)
	case <-t.stop:
	}
}

// follows returns the answer to a heartbeat that changes nothing for this member: it follows the sender in
// the sender's term. nil: raft has to see the heartbeat.
//
// Raft forgets the leader before it takes a newer term. So the leader is read last: it is not that of
// an older term.
func (g *Group[R, E]) follows(a *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
	r := g.raft.Load()
	if r == nil || r.CurrentTerm() != a.Term || r.State() != raft.Follower {
		return nil
	}
	if time.Since(r.LastContact()) > r.ReloadableConfig().HeartbeatTimeout/contactShare {
		return nil
	}
	if _, leader := r.LeaderWithID(); leader == "" || leader != raft.ServerID(a.ID) {
		return nil
	}
	return &raft.AppendEntriesResponse{RPCHeader: g.header(), Term: a.Term, LastLog: r.LastIndex(), Success: true}
}
