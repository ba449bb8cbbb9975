package broker

import (
	"context"
	"errors"
	"github.com/quorate/quorate/broker/failure"
)

// Serves returns nil when this node may answer clients, else Unavailable with what it waits
// for (EX-16): listeners ask before each call and connection, but for those that tell how the
// node fares.
func (b *Broker) Serves() error {
	if b.server.Serves() && (b.founded.Load() || b.hasFirstUser()) {
		return nil
	}
	return errNotServing(hindrance(b.server))
}

// hasFirstUser tells whether somebody could log in, if that is asked for (VH-1). It stays so.
func (b *Broker) hasFirstUser() bool {
	if b.cfg.Authenticate && !founded(b.view()) {
		return false
	}
	b.founded.Store(true)
	return true
}

// server is what a *cluster.Cluster says of how this node may answer clients; see there.
type server interface {
	Serves() bool
	ServesChanged() <-chan struct{}
	Hindrance() error
	Fresh() bool
	AwaitFresh(context.Context) error
}

func hindrance(c server) error {
	if err := c.Hindrance(); err != nil {
		return err
	}
	return errFirstUser
}

var errFirstUser = errors.New("broker: the cluster's first user is being made")

func errNotServing(why error) *failure.Error {
	return &failure.Error{
		Class: failure.Unavailable, Kind: "node", RetryAfter: failure.RetryAfter, Cause: why,
		Reason: "this node serves no clients at present: " + why.Error() + "; retry, or use another node",
	}
}

// AwaitServing returns when Serves does, or with its error when ctx ends.
func (b *Broker) AwaitServing(ctx context.Context) error {
	for {
		changed, seen := b.cluster.ServesChanged(), b.cluster.ViewChanged()
		err := b.Serves()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-seen:
		case <-ctx.Done():
			return err
		}
	}
}

// negative tells whether an error says that something is not there, or not allowed, which a
// view that is behind may say wrongly.
func negative(err error) bool {
	e, ok := errors.AsType[*failure.Error](err)
	return ok && (e.Class == failure.NotFound || e.Class == failure.AccessRefused || e.Class == failure.NotAllowed)
}

// Definite returns an error of a use case as its caller may be told it: that something is not
// there, or not allowed, only if this node's view of the catalog is confirmed and not older than it
// may be, else that the node cannot tell (EX-16).
func (b *Broker) Definite(ctx context.Context, err error) error {
	if err == nil || !negative(err) {
		return err
	}
	if why := b.Serves(); why != nil {
		return why
	}
	if why := b.current(ctx); why != nil {
		return why
	}
	return err
}

// current returns nil if the view was fresh when it was called, so that what was found in it
// before holds; else an error, if need be after the catalog's leader was asked, so that another
// try may find more.
func (b *Broker) current(ctx context.Context) error {
	switch c := b.server; {
	case !c.Serves():
		return errNotServing(hindrance(c))
	case c.Fresh():
		return nil
	default:
		return errStale(c.AwaitFresh(ctx))
	}
}

// errStale is the answer instead of one that takes a fresh view. why is nil if it is fresh by now.
func errStale(why error) *failure.Error {
	reason := "this node's view of the catalog was behind; retry"
	if why != nil {
		reason = "this node cannot tell what there is not, as its view of the catalog may be behind: " + why.Error() +
			"; see that most nodes run and reach one another, and retry, or use another node"
	}
	return &failure.Error{Class: failure.Unavailable, Kind: "node", RetryAfter: failure.RetryAfter, Reason: reason, Cause: why}
}

// endConnections closes the connections of all clients whenever the node ceases to serve.
func (b *Broker) endConnections(ctx context.Context, c server) {
	served := false
	for {
		changed := c.ServesChanged()
		serves := c.Serves()
		if served && !serves {
			why := Closing{By: "the node", Reason: errNotServing(hindrance(c)).Reason}
			b.log.Error("clients are sent away", "reason", why.Reason)
			b.clients.EndAll(why)
		}
		served = serves
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
