package operators

import (
	"cmp"
	"context"
	"slices"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
)

// LoginAttempts counts attempts to log in.
type LoginAttempts = clients.LoginAttempts

// LoginAttempts returns what a node has counted of attempts to log in since its start, or since ResetLoginAttempts: by protocol,
// and by protocol, address and user. Of the latter a node keeps the newest. Errors: NotFound; Unavailable if the node does not
// answer.
func (o *Operators) LoginAttempts(ctx context.Context, node string) (protocols, sources []LoginAttempts, err error) {
	about, err := o.knownNode(node)
	if err != nil {
		return nil, nil, err
	}
	protocols, sources, err = o.cluster.AllClients().LoginsOf(ctx, id.NodeID(node), false)
	slices.SortFunc(protocols, compareAttempts)
	slices.SortFunc(sources, compareAttempts)
	return protocols, sources, failure.Translate(err, about)
}

// compareAttempts orders attempts by where they came from.
func compareAttempts(a, b LoginAttempts) int {
	return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Address, b.Address), cmp.Compare(a.User, b.User))
}

// ResetLoginAttempts has a node count attempts to log in anew. Errors: those of LoginAttempts.
func (o *Operators) ResetLoginAttempts(ctx context.Context, node string) error {
	about, err := o.knownNode(node)
	if err != nil {
		return err
	}
	if _, _, err = o.cluster.AllClients().LoginsOf(ctx, id.NodeID(node), true); err == nil {
		audit.NotesOf(ctx).Note(audit.Change{Field: "attempts", After: "0"})
	}
	return failure.Translate(err, about)
}

// knownNode returns what errors about a node say, or one if there is no such node.
func (o *Operators) knownNode(node string) (failure.Error, error) {
	about := failure.Error{Kind: "node", Name: node}
	own, _ := o.cluster.Self()
	if _, known := o.cluster.View().Node(id.NodeID(node)); !known && id.NodeID(node) != own {
		missing := about
		missing.Class, missing.Reason = failure.NotFound, "does not exist"
		return about, &missing
	}
	return about, nil
}
