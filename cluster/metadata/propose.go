package metadata

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/raftfsm"
)

// Propose has a catalog command committed and waits until this node's view shows it (EX-15). A catalog.Error in the
// reply is returned as the error. A command of a version that is not finalised yet is refused.
//
// The command is repeated until it is answered: every catalog command states the wanted outcome, so that a repeat
// changes nothing. After a repeat Created and Deleted may be false although this call did it; Repeated reports the
// repeat.
func (g *Group) Propose(ctx context.Context, cmd catalog.Command) (catalog.Reply, error) {
	if err := catalog.CheckCommand(cmd); err != nil {
		return catalog.Reply{}, fmt.Errorf("cluster: catalog command: %w", err)
	}
	if refused := g.view().Allows(cmd); refused != nil {
		return catalog.Reply{Err: refused}, refused
	}
	ctx, cancel := wait.Within(ctx, g.cfg.Life, g.cfg.CommandTimeout)
	defer cancel()
	before := g.view()
	r, repeated, err := g.propose(ctx, catalog.AppendCommand(nil, cmd))
	if err != nil {
		return catalog.Reply{}, err
	}
	r.Repeated = repeated
	if r.Err != nil {
		return r, r.Err
	}
	g.count(cmd, &r, before)
	if err := g.cfg.Views.Await(ctx, r.Index); err != nil {
		return r, fmt.Errorf("%w: the catalog took the command at index %d, but this node has not caught up in time: "+
			"check its links to the other nodes", traffic.ErrUnknownOutcome, r.Index)
	}
	g.propagation.await(ctx, r.Index)
	return r, nil
}

// count notes the queues that have come or gone by a command. What the reply to a repeat lacks is not counted, nor a queue
// that was declared in a vhost while that was deleted.
func (g *Group) count(cmd catalog.Command, r *catalog.Reply, before *catalog.View) {
	switch c := cmd.(type) {
	case *catalog.DeclareQueue:
		if r.Created {
			g.created.Add(1)
		}
	case *catalog.DeleteQueue:
		if r.Deleted {
			g.deleted.Add(1)
		}
	case *catalog.DeleteVHost:
		if r.Deleted {
			g.deleted.Add(uint64(before.QueueCountIn(c.Name)))
		}
	}
}

// QueueChurn returns how many queues commands of this node have created and deleted since its start: for its clients,
// and because they expired or were no longer used.
func (g *Group) QueueChurn() (created, deleted uint64) { return g.created.Load(), g.deleted.Load() }

// propose tries the leader, or whoever may know it, until a leader answers. repeated reports
// that an earlier attempt may have taken effect before the one that was answered.
func (g *Group) propose(ctx context.Context, command []byte) (r catalog.Reply, repeated bool, err error) {
	var hint id.NodeID
	var last error
	unknown := false
	for attempt := 0; ; attempt++ {
		to := hint
		if to == "" {
			to = g.target(attempt)
		}
		hint = ""
		if to != "" {
			r, leader, err := g.proposeAt(ctx, to, command)
			if err == nil {
				return r, unknown, nil
			}
			unknown = unknown || !errors.Is(err, errNotProposed)
			last, hint = err, leader
			if hint == to {
				hint = ""
			}
		}
		if hint != "" && attempt%4 != 3 {
			continue // a redirect needs no wait, unless nodes send one another around
		}
		if err := wait.For(ctx, catalogRetry); err != nil {
			return catalog.Reply{}, unknown, g.unavailable(unknown, last)
		}
	}
}

// unavailable says ErrUnknownOutcome if any attempt may have got into the log.
func (g *Group) unavailable(unknown bool, last error) error {
	if g.cfg.Life.Err() != nil {
		return fmt.Errorf("%w: catalog command", traffic.ErrClosed)
	}
	kind := traffic.ErrUnavailable
	if unknown {
		kind = traffic.ErrUnknownOutcome
	}
	if last == nil {
		last = errors.New("no node that may lead it is connected")
	}
	return fmt.Errorf("%w: catalog group: check that a majority of its nodes runs and is connected: %w", kind, last)
}

// target returns the node to ask: the leader, else the connected nodes in turn. The member of
// a node whose disk hangs may take itself for the leader after others have elected one.
func (g *Group) target(attempt int) id.NodeID {
	if leader := g.Leader(); leader != "" && !g.cfg.Disk.Hangs() {
		return leader
	}
	var near []id.NodeID
	for _, n := range g.cfg.Gossip() {
		if _, up := g.cfg.Mux.Connected(n.ID); up && n.ID != g.cfg.Node {
			near = append(near, n.ID)
		}
	}
	if len(near) == 0 {
		return ""
	}
	return near[attempt%len(near)]
}

// errNotProposed marks attempts that have left nothing in the log.
var errNotProposed = errors.New("cluster: not proposed")

// proposeAt asks the node to, which may be this one. Errors that are not errNotProposed leave the outcome
// open.
func (g *Group) proposeAt(ctx context.Context, to id.NodeID, command []byte) (catalog.Reply, id.NodeID, error) {
	ctx, cancel := context.WithTimeout(ctx, catalogAttempt)
	defer cancel()
	if to == g.cfg.Node {
		return g.proposeHere(ctx, command)
	}
	peer, err := g.cfg.Mux.Client(to)
	if err != nil {
		return catalog.Reply{}, "", fmt.Errorf("%w: %w", errNotProposed, err)
	}
	answer, err := peer.ProposeCatalog(ctx, &nodev1.ProposeCatalogRequest{Command: command})
	if err != nil {
		return catalog.Reply{}, "", fmt.Errorf("asking node %q: %w", to, err)
	}
	if answer.GetNotLeader() {
		leader := id.NodeID(answer.GetLeader())
		return catalog.Reply{}, leader, fmt.Errorf("%w: node %q does not lead it", errNotProposed, to)
	}
	r, err := catalog.DecodeReply(answer.GetReply())
	if err != nil {
		return catalog.Reply{}, "", fmt.Errorf("answer of node %q: %w", to, err)
	}
	return r, "", nil
}

// proposeHere separates what has surely not got into the log from what may have.
func (g *Group) proposeHere(ctx context.Context, command []byte) (catalog.Reply, id.NodeID, error) {
	// The group keeps the bytes until it has answered, and that may be after ctx's end.
	r, err := g.raft.Propose(ctx, raftfsm.Command{Header: slices.Clone(command)})
	if err == nil {
		return r, "", nil
	}
	var redirect *raftfsm.NotLeaderError
	switch {
	case errors.As(err, &redirect):
		return catalog.Reply{}, redirect.Leader, fmt.Errorf("%w: %w", errNotProposed, err)
	case errors.Is(err, raftfsm.ErrBusy), errors.Is(err, raftfsm.ErrStopped):
		return catalog.Reply{}, "", fmt.Errorf("%w: %w", errNotProposed, err)
	}
	return catalog.Reply{}, "", err
}

// proposeFor proposes for a peer. A newer one may send what this build cannot read: that is
// refused here, for in the log it would stop this member.
func (g *Group) proposeFor(ctx context.Context, command []byte) (catalog.Reply, id.NodeID, error) {
	if leader, _ := g.raft.Leader(); leader != g.cfg.Node {
		return catalog.Reply{}, leader, fmt.Errorf("%w: node %q does not lead the catalog", errNotProposed, g.cfg.Node)
	}
	if _, err := catalog.DecodeCommand(command); err != nil {
		return catalog.Reply{Err: &catalog.Error{
			Code: catalog.CodePreconditionFailed, Kind: "command",
			Reason: fmt.Sprintf("node %q, which leads the catalog, cannot read it: %v", g.cfg.Node, err),
		}}, "", nil
	}
	return g.proposeHere(ctx, command)
}
