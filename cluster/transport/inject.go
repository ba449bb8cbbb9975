package transport

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"
)

// Inject hands a Raft call to the group's member here as if a peer had sent it, and
// returns raft's response.
func (g *group) Inject(ctx context.Context, command any) (any, error) {
	answer := make(chan raft.RPCResponse, 1)
	if !g.deliver(raft.RPC{Command: command, RespChan: answer}, ctx.Done()) && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: group %s", ErrClosed, g.id)
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
