// Package serving reports whether a node may answer clients, and what of its view of the catalog they may
// see: a node that does not serve, is cut off or is behind sends them elsewhere. A Node may be used
// concurrently; errors are of package failure, with the class Unavailable.
package serving

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/clients"
)

// Config is what it takes to report whether a node may answer clients.
type Config struct {
	// Node is this node's part of the cluster, Catalog its member of the catalog's group, Unloader what drains it.
	Node     Cluster
	Catalog  Catalog
	Unloader Unloader
	View     func() *catalog.View
	// Clients are sent away when the node ceases to serve.
	Clients *clients.Registry
	// Authenticate has the node wait for the cluster's first user (VH-1).
	Authenticate bool
	Log          *slog.Logger
}

// Node reports whether this node may answer clients, and what of a view of the catalog they may
// see. All methods may be called concurrently.
type Node struct {
	cfg     Config
	cluster Cluster
	catalog Catalog
	view    func() *catalog.View
	clients *clients.Registry
	log     *slog.Logger
	founded atomic.Bool // a user can log in, if that is asked for
	reach   *reach
}

// New returns that of a node. EndConnections and WatchReach are to be run beside.
func New(c Config) *Node {
	return &Node{cfg: c, cluster: c.Node, catalog: c.Catalog, view: c.View, clients: c.Clients, log: c.Log, reach: newReach()}
}

// Serves returns nil when this node may answer clients, else Unavailable with what it waits
// for (EX-16): listeners ask before each call and connection, but for those about how the
// node fares.
func (s *Node) Serves() error {
	if s.catalog.Serves() && (s.founded.Load() || s.hasFirstUser()) {
		return nil
	}
	return errNotServing(Hindrance(s.catalog))
}

// hasFirstUser reports whether a user could log in, if that is asked for (VH-1). It stays so.
func (s *Node) hasFirstUser() bool {
	if s.cfg.Authenticate && !Founded(s.view()) {
		return false
	}
	s.founded.Store(true)
	return true
}

// Catalog is what it takes of a *metadata.Group; see there.
type Catalog interface {
	Serves() bool
	ServesChanged() <-chan struct{}
	Hindrance() error
	Fresh() bool
	AwaitFresh(context.Context) error
}

// Unloader is what it takes of a *membership.Unloader; see there.
type Unloader interface {
	Draining() bool
}

// Cluster is what it takes of a *cluster.Cluster; see there.
type Cluster interface {
	ViewChanged() <-chan struct{}
	DiskHangs() bool
	Reach() cluster.Reach
	ReachChanged() <-chan struct{}
}

// Hindrance is what a node that does not serve waits for.
func Hindrance(c Catalog) error {
	if err := c.Hindrance(); err != nil {
		return err
	}
	return errFirstUser
}

var errFirstUser = errors.New("broker: the cluster's first user is being made")

// errNotServing sends a client elsewhere; why is what the node waits for.
func errNotServing(why error) *failure.Error {
	return &failure.Error{
		Class: failure.Unavailable, Kind: "node", RetryAfter: failure.RetryAfter, Cause: why,
		Reason: "this node serves no clients at present: " + why.Error() + "; retry, or use another node",
	}
}

// AwaitServing returns when Serves does, or with its error when ctx ends.
func (s *Node) AwaitServing(ctx context.Context) error {
	for {
		changed, seen := s.catalog.ServesChanged(), s.cluster.ViewChanged()
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

// Negative reports whether an error is that something is not there, or not allowed, which a
// view that is behind may have wrong.
func Negative(err error) bool {
	e, ok := errors.AsType[*failure.Error](err)
	return ok && (e.Class == failure.NotFound || e.Class == failure.AccessRefused || e.Class == failure.NotAllowed)
}

// Definite returns an error of a use case as its caller may get it: that something is not
// there, or not allowed, only if this node's view of the catalog is confirmed and not older than it
// may be, else that the node does not know (EX-16).
func (s *Node) Definite(ctx context.Context, err error) error {
	if err == nil || !Negative(err) {
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
func (s *Node) Current(ctx context.Context) error {
	switch c := s.catalog; {
	case !c.Serves():
		return errNotServing(Hindrance(c))
	case c.Fresh():
		return nil
	default:
		return ErrStale(c.AwaitFresh(ctx))
	}
}

// ErrStale is the answer instead of one that takes a fresh view. why is nil if it is fresh by now.
func ErrStale(why error) *failure.Error {
	reason := "this node's view of the catalog was behind; retry"
	if why != nil {
		reason = "this node cannot tell what there is not, as its view of the catalog may be behind: " + why.Error() +
			"; see that most nodes run and reach one another, and retry, or use another node"
	}
	return &failure.Error{Class: failure.Unavailable, Kind: "node", RetryAfter: failure.RetryAfter, Reason: reason, Cause: why}
}

// EndConnections closes the connections of all clients whenever the node ceases to serve.
func (s *Node) EndConnections(ctx context.Context) {
	c := s.catalog
	served := false
	for {
		changed := c.ServesChanged()
		serves := c.Serves()
		if served && !serves {
			why := clients.Closing{By: "the node", Reason: errNotServing(Hindrance(c)).Reason}
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

// The global parameter that reports that the cluster has had its default user.
const (
	FoundingComponent = "access"
	FoundedName       = "founded"
)

// Founded reports whether the cluster's first users were made.
func Founded(v *catalog.View) bool {
	_, done := v.Parameter("", FoundingComponent, FoundedName)
	return done
}

// View returns this node's view for what a client asks.
func (s *Node) View() (*catalog.View, error) {
	if !s.catalog.Serves() {
		return nil, errNotServing(Hindrance(s.catalog))
	}
	return s.view(), nil
}

// ViewOf returns the view, and checks that it has the vhost unless that is empty.
func (s *Node) ViewOf(vhost string) (*catalog.View, error) {
	v := s.view()
	if _, ok := v.Exchange(vhost, ""); vhost != "" && !ok {
		return nil, &failure.Error{Class: failure.NotFound, VHost: vhost, Kind: "vhost", Name: vhost, Reason: "does not exist"}
	}
	return v, nil
}
