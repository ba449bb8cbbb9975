package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/quorate/quorate/cluster/forwarding"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// Status is one queue's state.
type Status struct {
	Overview quorumq.Overview
	Leader   id.NodeID // of a queue that hibernates, the node that has shown it
	Members  []id.NodeID
	Online   []id.NodeID // members that vote, on nodes that this one reaches
	Group    *nodev1.GroupStatus
	// Hibernated: the figures are those that the queue had when it began to hibernate, on the node that led it. Nobody has
	// found out whether its members still are a majority.
	Hibernated bool
	forwarding.DeadLetters
}

// Status returns a queue's state, read from its leader.
func (l *Leaders) Status(ctx context.Context, q id.QueueUID) (Status, error) {
	return l.status(ctx, q, false)
}

// Figures is Status for those who only look: a queue that hibernates is not woken, but has
// the figures that it had, which nothing has changed since. If its members were cut off from
// each other since, they may be old.
func (l *Leaders) Figures(ctx context.Context, q id.QueueUID) (Status, error) {
	return l.status(ctx, q, true)
}

// status asks the leader. With kept, figures of a hibernating queue may come from the node that put it to sleep or,
// while that node is not connected, from another member's node.
func (l *Leaders) status(ctx context.Context, q id.QueueUID, kept bool) (Status, error) {
	ctx, cancel := wait.Within(ctx, l.cfg.Life, l.cfg.CommandTimeout)
	defer cancel()
	var out Status
	err := l.at(ctx, q, func(to id.NodeID) (id.NodeID, error) {
		r, err := l.askStatus(ctx, to, &nodev1.QueueStatusRequest{Queue: uint64(q), Kept: kept})
		if err != nil {
			return "", err
		}
		if !r.GetHasOverview() {
			leader := id.NodeID(r.GetLeader())
			if _, up := l.cfg.Transport.Connected(leader); r.GetHibernated() && (leader == to || leader != l.cfg.Node && !up) {
				kept = false // the node with the figures is gone, and nobody stands in: another member must lead
			}
			return leader, fmt.Errorf("node %q does not lead it", to)
		}
		if err := json.Unmarshal(r.GetOverview(), &out.Overview); err != nil {
			return "", fmt.Errorf("overview from node %q: %w", to, err)
		}
		out.Group, out.Leader, out.Hibernated = r.GetGroup(), to, r.GetHibernated()
		out.DeadLetters = forwarding.DeadLetters{
			BacklogTrouble: r.GetBacklogTrouble(), Waiting: r.GetWaiting(), Retries: r.GetRetries(), Lost: r.GetLost(),
		}
		return "", nil
	})
	if err != nil {
		return Status{}, err
	}
	if r, ok := l.cfg.View().QueueByUID(q); ok {
		out.Members = slices.Clone(r.Members)
		for _, m := range r.Members {
			if l.reaches(m) && votes(out.Group, m) {
				out.Online = append(out.Online, m)
			}
		}
	}
	return out, nil
}

// reaches reports whether there is a link to a node.
func (l *Leaders) reaches(n id.NodeID) bool {
	_, up := l.cfg.Transport.Connected(n)
	return up || n == l.cfg.Node
}

// votes reports whether a member votes. Leaders of older builds do not say who does.
func votes(g *nodev1.GroupStatus, n id.NodeID) bool {
	return len(g.GetVoters()) == 0 || slices.Contains(g.GetVoters(), string(n))
}

// StatusAt returns what a node reports about its member of a queue, whether or not that leads.
func (l *Leaders) StatusAt(ctx context.Context, n id.NodeID, q id.QueueUID) (*nodev1.QueueStatusResponse, error) {
	return l.askStatus(ctx, n, &nodev1.QueueStatusRequest{Queue: uint64(q)})
}

// askStatus asks a node, which may be this one.
func (l *Leaders) askStatus(ctx context.Context, to id.NodeID, request *nodev1.QueueStatusRequest) (*nodev1.QueueStatusResponse, error) {
	if to == l.cfg.Node {
		return l.cfg.Own.QueueStatus(ctx, request)
	}
	peer, err := l.cfg.Transport.Client(to)
	if err != nil {
		return nil, err
	}
	return peer.QueueStatus(ctx, request)
}
