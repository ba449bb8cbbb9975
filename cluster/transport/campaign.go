package transport

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// Campaign lets the group's member here stand for election at once, without pre-vote and
// even if others know a leader: it is for groups that cannot have one. It returns
// when the member has become a candidate. What the others must do to vote, be open, is
// the caller's to see to: a candidate that finds no voters waits an election timeout.
func (m *Mux) Campaign(ctx context.Context, g id.GroupID) error {
	member := m.group(g)
	if member == nil {
		return fmt.Errorf("%w: group %s has no member here", ErrClosed, g)
	}
	_, err := member.Inject(ctx, &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax,
		ID:              []byte(m.config.Node),
		Addr:            []byte(m.config.Node),
	}})
	return err
}

// Inject hands a Raft call to the group's member here as if a peer had sent it, and
// returns raft's response.
func (g *group) Inject(ctx context.Context, command any) (any, error) {
	answer := make(chan raft.RPCResponse, 1)
	select {
	case g.consumer <- raft.RPC{Command: command, RespChan: answer}:
	case <-g.done:
		return nil, fmt.Errorf("%w: group %s", ErrClosed, g.id)
	case <-ctx.Done():
		return nil, fmt.Errorf("transport: %T to the member of group %s here: %w", command, g.id, ctx.Err())
	}
	select {
	case r := <-answer:
		return r.Response, r.Error
	case <-g.done:
		return nil, fmt.Errorf("%w: group %s", ErrClosed, g.id)
	case <-ctx.Done():
		return nil, fmt.Errorf("transport: %T to the member of group %s here: %w", command, g.id, ctx.Err())
	}
}
