// Package serving decides whether a node may answer clients, and what it may answer from its view of the catalog. A
// node that does not serve, is cut off or is behind sends clients elsewhere. A Node may be used concurrently; errors
// are those of package failure, with the class Unavailable.
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

// Config has the settings and parts of a Node.
type Config struct {
	// Node is this node's part of the cluster, Catalog is its member of the catalog's group, and Unloader drains it.
	Node     Cluster
	Catalog  Catalog
	Unloader Unloader
	View     func() *catalog.View
	// Clients is the registry of the clients whose connections end when the node stops serving.
	Clients *clients.Registry
	// Authenticate makes the node wait for the cluster's first user (VH-1).
	Authenticate bool
	Log          *slog.Logger
}

// Node decides whether this node may answer clients, and what it may answer from its view of the catalog. All methods
// may be called concurrently.
type Node struct {
	cfg     Config
	cluster Cluster
	catalog Catalog
	view    func() *catalog.View
	clients *clients.Registry
	log     *slog.Logger
	founded atomic.Bool // a user can log in, or none needs to
	reach   *reach
}

// New returns a Node. The caller must also run EndConnections and WatchReach.
func New(c Config) *Node {
	return &Node{cfg: c, cluster: c.Node, catalog: c.Catalog, view: c.View, clients: c.Clients, log: c.Log, reach: newReach()}
}

// Serves returns nil if this node may answer clients, else Unavailable with what the node waits for (EX-16). Listeners
// ask before each call and connection, except for those about the state of the node.
func (s *Node) Serves() error {
	if s.catalog.Serves() && (s.founded.Load() || s.hasFirstUser()) {
		return nil
	}
	return errNotServing(Hindrance(s.catalog))
}

// hasFirstUser reports whether a user could log in, or none needs to (VH-1). Once true, it stays true.
func (s *Node) hasFirstUser() bool {
	if s.cfg.Authenticate && !Founded(s.view()) {
		return false
	}
	s.founded.Store(true)
	return true
}

// Catalog is the part of *metadata.Group that this package needs; the methods are documented there.
type Catalog interface {
	Serves() bool
	ServesChanged() <-chan struct{}
	Hindrance() error
	Fresh() bool
	AwaitFresh(context.Context) error
}

// Unloader is the part of *membership.Unloader that this package needs; the methods are documented there.
type Unloader interface {
	Draining() bool
}

// Cluster is the part of *cluster.Cluster that this package needs; the methods are documented there.
type Cluster interface {
	ViewChanged() <-chan struct{}
	DiskHangs() bool
	Reach() cluster.Reach
	ReachChanged() <-chan struct{}
}

// Hindrance returns what a node that does not serve waits for.
func Hindrance(c Catalog) error {
	if err := c.Hindrance(); err != nil {
		return err
	}
	return errFirstUser
}

var errFirstUser = errors.New("broker: the cluster's first user is being made")

// errNotServing sends a client to another node; why is what this node waits for.
func errNotServing(why error) *failure.Error {
	return &failure.Error{
		Class: failure.Unavailable, Kind: "node", RetryAfter: failure.RetryAfter, Cause: why,
		Reason: "this node serves no clients at present: " + why.Error() + "; retry, or use another node",
	}
}

// AwaitServing waits until Serves returns nil. If ctx ends first, it returns the error of Serves.
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

// Negative reports whether an error says that something does not exist or is not allowed. Such an error may be wrong if
// the view is behind.
func Negative(err error) bool {
	e, ok := errors.AsType[*failure.Error](err)
	return ok && (e.Class == failure.NotFound || e.Class == failure.AccessRefused || e.Class == failure.NotAllowed)
}

// Definite returns the error that the caller of a use case may get. An error that says that something does not exist or
// is not allowed is returned only if this node's view of the catalog is confirmed and fresh enough. Otherwise Definite
// returns an error that says that this node does not know (EX-16).
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

// Current returns nil if the view was fresh when Current was called; then what the caller has found in it holds.
// Otherwise it asks the catalog's leader for a newer view if need be, and returns an error, because another try may now
// find more.
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

// ErrStale replaces an answer that needs a fresh view. why is the reason why the view is not fresh; nil if it has
// become fresh meanwhile.
func ErrStale(why error) *failure.Error {
	reason := "this node's view of the catalog was behind; retry"
	if why != nil {
		reason = "this node cannot report what does not exist, as its view of the catalog may be behind: " + why.Error() +
			"; see that most nodes run and reach one another, and retry, or use another node"
	}
	return &failure.Error{Class: failure.Unavailable, Kind: "node", RetryAfter: failure.RetryAfter, Reason: reason, Cause: why}
}

// EndConnections closes the connections of all clients each time the node stops serving, until ctx ends.
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

// The global parameter that records that the cluster has had its default user.
const (
	FoundingComponent = "access"
	FoundedName       = "founded"
)

// Founded reports whether the cluster's first user was created.
func Founded(v *catalog.View) bool {
	_, done := v.Parameter("", FoundingComponent, FoundedName)
	return done
}

// View returns this node's view, to answer clients from, or an error if the node does not serve.
func (s *Node) View() (*catalog.View, error) {
	if !s.catalog.Serves() {
		return nil, errNotServing(Hindrance(s.catalog))
	}
	return s.view(), nil
}

// ViewOf returns the view, and checks that the vhost exists unless vhost is empty.
func (s *Node) ViewOf(vhost string) (*catalog.View, error) {
	v := s.view()
	if _, ok := v.Exchange(vhost, ""); vhost != "" && !ok {
		return nil, &failure.Error{Class: failure.NotFound, VHost: vhost, Kind: "vhost", Name: vhost, Reason: "does not exist"}
	}
	return v, nil
}
