package audit

import (
	"context"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
)

// proposer is the method of this node's member of the catalog's group that Commands need.
type proposer interface {
	Propose(context.Context, catalog.Command) (catalog.Reply, error)
}

// Commands proposes commands to the catalog, and notes for the audit what they have changed. All
// methods may be called concurrently.
type Commands struct {
	catalog proposer
	view    func() *catalog.View
}

// NewCommands returns Commands for a member of the catalog's group.
func NewCommands(c proposer, view func() *catalog.View) *Commands {
	return &Commands{catalog: c, view: view}
}

// Propose is Commit, unless an earlier check failed; it also translates the error.
func (x *Commands) Propose(ctx context.Context, about failure.Error, cmd catalog.Command, failed error) (catalog.Reply, error) {
	if failed != nil {
		return catalog.Reply{}, failed
	}
	reply, err := x.Commit(ctx, cmd)
	return reply, failure.Translate(err, about)
}

// Commit proposes a command to the catalog, and notes for the audit what the command has changed.
func (x *Commands) Commit(ctx context.Context, cmd catalog.Command) (catalog.Reply, error) {
	before := x.view()
	r, err := x.catalog.Propose(ctx, cmd)
	if err == nil {
		NotesOf(ctx).Committed(before, cmd, r)
	}
	return r, err
}

// CommitDecided is Commit for the deletion of a queue that somebody else carries out as well once it is decided, and who may
// be first. It is noted as this act's even so. before is a view that has the queue.
func (x *Commands) CommitDecided(ctx context.Context, before *catalog.View, cmd *catalog.DeleteQueue) (catalog.Reply, error) {
	r, err := x.Commit(ctx, cmd)
	if err == nil && !r.Deleted && !r.Repeated {
		NotesOf(ctx).Committed(before, cmd, catalog.Reply{Deleted: true})
	}
	return r, err
}

// Committed records what a command with the reply r has changed.
func (a *Notes) Committed(before *catalog.View, cmd catalog.Command, r catalog.Reply) {
	if a == nil {
		return
	}
	if changes, changed := changesOf(before, cmd, r); changed {
		a.Note(changes...)
	}
}
