package connections

import (
	"context"
	"errors"
	"strconv"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
)

// EndConnection ends a connection to any node; name is as for ClientConnection. The client gets the reason, over gRPC
// with the name of the caller. Errors: those of ClientConnection.
func (cs *Connections) EndConnection(ctx context.Context, name, reason string) error {
	x, err := cs.ClientConnection(ctx, name)
	if err != nil {
		return err
	}
	why, err := cs.closing(ctx, reason)
	if err != nil {
		return err
	}
	about := failure.Error{Kind: "connection", Name: name}
	found, err := cs.everywhere.End(ctx, x.Node, x.ID, why)
	if err != nil {
		return failure.Translate(err, about)
	}
	if !found { // it ended meanwhile
		about.Class, about.Reason = failure.NotFound, "does not exist any more"
		return &about
	}
	audit.NotesOf(ctx).Note(audit.Change{Field: "connection", Before: x.Name}, audit.Change{Field: "user", Before: x.User},
		audit.Change{Field: "state", Before: x.State, After: ConnectionClosing}, audit.Change{Field: "reason", After: why.Reason})
	return nil
}

// EndUserConnections ends the connections of a user to all nodes, as EndConnection does, and returns the nodes that did
// not answer. If one cannot be ended, it continues with the others.
func (cs *Connections) EndUserConnections(ctx context.Context, user, reason string) (silent []string, err error) {
	all, silent, err := cs.ClientConnections(ctx, "", user)
	if err != nil {
		return nil, err
	}
	why, err := cs.closing(ctx, reason)
	if err != nil {
		return nil, err
	}
	var errs []error
	ended := 0
	for i := range all {
		found, err := cs.everywhere.End(ctx, all[i].Node, all[i].ID, why)
		if err != nil {
			errs = append(errs, failure.Translate(err, failure.Error{Kind: "connection", Name: all[i].Name}))
		} else if found { // else it ended meanwhile
			ended++
		}
	}
	audit.NotesOf(ctx).Note(audit.Change{Field: "user", Before: user}, audit.Change{Field: "connections", Before: strconv.Itoa(len(all)), After: strconv.Itoa(len(all) - ended)},
		audit.Change{Field: "reason", After: why.Reason})
	return silent, errors.Join(errs...)
}

// closing returns why the caller ends connections.
func (cs *Connections) closing(ctx context.Context, reason string) (Closing, error) {
	who, err := cs.logins.Who(ctx)
	why := Closing{Reason: reason}
	if who != nil {
		why.By = who.User()
	}
	return why, err
}
