package peer

import (
	"context"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// LoginAttempts returns what this node has counted of logins, for another one, or begins to count anew.
func (c *Clients) LoginAttempts(_ context.Context, r *nodev1.LoginAttemptsRequest) (*nodev1.LoginAttemptsResponse, error) {
	if r.GetAnew() {
		c.own.Logins.Reset()
		return &nodev1.LoginAttemptsResponse{}, nil
	}
	protocols, sources := c.own.Logins.Counts()
	return &nodev1.LoginAttemptsResponse{Protocols: attemptsToWire(protocols), Sources: attemptsToWire(sources)}, nil
}

// LoginsOf returns what a node has counted of logins, by protocol and by source. With anew it has the node begin again, and
// returns nothing. Errors: ErrUnreachable, or that of ctx.
func (c *Clients) LoginsOf(ctx context.Context, n id.NodeID, anew bool) (protocols, sources []clients.LoginAttempts, err error) {
	asked, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var r *nodev1.LoginAttemptsResponse
	if n == c.peers.Node {
		r, err = c.LoginAttempts(asked, &nodev1.LoginAttemptsRequest{Anew: anew})
	} else {
		var node nodev1.NodeClient
		if node, err = c.peers.Client(n); err == nil {
			r, err = node.LoginAttempts(asked, &nodev1.LoginAttemptsRequest{Anew: anew})
		}
	}
	if err := unreachable(ctx, n, err); err != nil {
		return nil, nil, err
	}
	return attemptsFromWire(r.GetProtocols()), attemptsFromWire(r.GetSources()), nil
}

func attemptsToWire(all []clients.LoginAttempts) []*nodev1.LoginAttempts {
	out := make([]*nodev1.LoginAttempts, len(all))
	for i, a := range all {
		out[i] = &nodev1.LoginAttempts{
			Protocol: a.Protocol, Address: clients.AsText(a.Address), User: clients.AsText(a.User), Accepted: a.Accepted, Refused: a.Refused,
		}
	}
	return out
}

func attemptsFromWire(all []*nodev1.LoginAttempts) []clients.LoginAttempts {
	out := make([]clients.LoginAttempts, len(all))
	for i, a := range all {
		out[i] = clients.LoginAttempts{
			Protocol: a.GetProtocol(), Address: a.GetAddress(), User: a.GetUser(), Accepted: a.GetAccepted(), Refused: a.GetRefused(),
		}
	}
	return out
}
