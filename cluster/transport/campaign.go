package transport

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// Campaign lets the group's member here stand for election at once, without pre-vote and
// even if others know a leader: it is for new groups that cannot have one. It returns
// when the member has become a candidate. What the others must do to vote, be open, is
// the caller's to see to: a candidate that finds no voters waits an election timeout.
func (m *Mux) Campaign(ctx context.Context, g id.GroupID) error {
	member := m.group(g)
	if member == nil {
		return fmt.Errorf("%w: group %s has no member here", ErrClosed, g)
	}
	answer := make(chan raft.RPCResponse, 1)
	call := raft.RPC{
		Command: &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax,
			ID:              []byte(m.config.Node),
			Addr:            []byte(m.config.Node),
		}},
		RespChan: answer,
	}
	select {
	case member.consumer <- call:
	case <-member.done:
		return fmt.Errorf("%w: group %s", ErrClosed, g)
	case <-ctx.Done():
		return fmt.Errorf("transport: campaign of group %s: %w", g, ctx.Err())
	}
	select {
	case r := <-answer:
		return r.Error
	case <-member.done:
		return fmt.Errorf("%w: group %s", ErrClosed, g)
	case <-ctx.Done():
		return fmt.Errorf("transport: campaign of group %s: %w", g, ctx.Err())
	}
}
