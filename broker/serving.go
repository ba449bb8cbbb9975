package broker

import (
	"context"
	"errors"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/clients"
	"log/slog"
	"sync/atomic"
)

// servingConfig is what it takes to tell whether a node may answer clients.
type servingConfig struct {
	// Node is this node's part of the cluster.
	Node server
	View func() *catalog.View
	// Clients are sent away when the node ceases to serve.
	Clients *clients.Registry
	// Authenticate has the node wait for the cluster's first user (VH-1).
	Authenticate bool
	Log          *slog.Logger
}

// serving tells whether this node may answer clients, and what of a view of the catalog may be told
// them. All methods may be called concurrently.
type serving struct {
	cfg     servingConfig
	server  server
	view    func() *catalog.View
	clients *clients.Registry
	log     *slog.Logger
	founded atomic.Bool // somebody can log in, if that is asked for
	reach   *reach
}

// newServing returns that of a node. endConnections and watchReach are to be run beside.
func newServing(c servingConfig) *serving {
	return &serving{cfg: c, server: c.Node, view: c.View, clients: c.Clients, log: c.Log, reach: newReach()}
}

// Serves returns nil when this node may answer clients, else Unavailable with what it waits
// for (EX-16): listeners ask before each call and connection, but for those that tell how the
// node fares.
func (s *serving) Serves() error {
	if s.server.Serves() && (s.founded.Load() || s.hasFirstUser()) {
		return nil
	}
	return errNotServing(hindrance(s.server))
}

// hasFirstUser tells whether somebody could log in, if that is asked for (VH-1). It stays so.
func (s *serving) hasFirstUser() bool {
	if s.cfg.Authenticate && !founded(s.view()) {
		return false
	}
	s.founded.Store(true)
	return true
}

// server is what a *cluster.Cluster says of how this node may answer clients; see there.
type server interface {
	Serves() bool
	ServesChanged() <-chan struct{}
	Hindrance() error
	Fresh() bool
	AwaitFresh(context.Context) error
	ViewChanged() <-chan struct{}
	Draining() bool
	DiskHangs() bool
	Reach() cluster.Reach
	ReachChanged() <-chan struct{}
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
func (s *serving) AwaitServing(ctx context.Context) error {
	for {
		changed, seen := s.server.ServesChanged(), s.server.ViewChanged()
		err := s.Serves()
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
func (s *serving) Definite(ctx context.Context, err error) error {
	if err == nil || !negative(err) {
		return err
	}
	if why := s.Serves(); why != nil {
		return why
	}
	if why := s.Current(ctx); why != nil {
		return why
	}
	return err
}

// Current returns nil if the view was fresh when it was called, so that what was found in it
// before holds; else an error, if need be after the catalog's leader was asked, so that another
// try may find more.
func (s *serving) Current(ctx context.Context) error {
	switch c := s.server; {
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
func (s *serving) endConnections(ctx context.Context) {
	c := s.server
	served := false
	for {
		changed := c.ServesChanged()
		serves := c.Serves()
		if served && !serves {
			why := clients.Closing{By: "the node", Reason: errNotServing(hindrance(c)).Reason}
			s.log.Error("clients are sent away", "reason", why.Reason)
			s.clients.EndAll(why)
		}
		served = serves
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// The global parameter that tells that the cluster has had its default user.
const (
	foundingComponent = "access"
	foundedName       = "founded"
)

// founded tells whether the cluster's first users were made.
func founded(v *catalog.View) bool {
	_, done := v.Parameter("", foundingComponent, foundedName)
	return done
}

// View returns this node's view for what a client asks.
func (s *serving) View() (*catalog.View, error) {
	if !s.server.Serves() {
		return nil, errNotServing(hindrance(s.server))
	}
	return s.view(), nil
}

// ViewOf returns the view, and checks that it has the vhost unless that is empty.
func (s *serving) ViewOf(vhost string) (*catalog.View, error) {
	v := s.view()
	if _, ok := v.Exchange(vhost, ""); vhost != "" && !ok {
		return nil, &failure.Error{Class: failure.NotFound, VHost: vhost, Kind: "vhost", Name: vhost, Reason: "does not exist"}
	}
	return v, nil
}

// Admit says whether new streams may begin on this node: not while it is drained, or cut off.
func (s *serving) Admit() error {
	if s.server.Draining() {
		return &failure.Error{Class: failure.Unavailable, Kind: "node", RetryAfter: failure.RetryAfter, Reason: "this node is drained; use another node"}
	}
	if s.cutOff() != "" {
		return s.ErrCutOff()
	}
	return nil
}
