// Package connections keeps the connections and consumers of clients, and what belongs to them. It counts those of this
// node towards limits (VH-4), deletes exclusive queues when they end, and asks other nodes for theirs.
// Connections may be used concurrently; errors are those of package failure.
package connections

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
)

// Cluster is the part of *cluster.Cluster that this package needs; the methods are documented there.
type Cluster interface {
	Self() (id.NodeID, id.Epoch)
	View() *catalog.View
	ViewChanged() <-chan struct{}
	Connected(id.NodeID) bool
}

// Catalog is the part of *metadata.Group that this package needs; the methods are documented there.
type Catalog interface {
	Leads() bool
	Propose(context.Context, catalog.Command) (catalog.Reply, error)
}

// Config has the settings and parts of Connections.
type Config struct {
	Node        Cluster
	Catalog     Catalog
	Everywhere  *peer.Clients
	View        func() *catalog.View
	Clients     *clients.Registry
	Policies    *policy.Matcher
	Serving     *serving.Node
	Logins      *identity.Logins
	Permissions *permission.Permissions
	Limits      *limits.Limits // counts refusals
	// Timeout is how long a node must be unreachable before its clients' connections count as ended.
	Timeout time.Duration
	Log     *slog.Logger
}

// Connections keeps the connections and consumers of this node's clients: it counts them towards limits, and deletes
// their exclusive queues when they end. It asks the other nodes for theirs. All methods may be called concurrently.
type Connections struct {
	cluster     Cluster
	catalog     Catalog
	everywhere  *peer.Clients
	view        func() *catalog.View
	clients     *clients.Registry
	policies    *policy.Matcher
	serving     *serving.Node
	logins      *identity.Logins
	permissions *permission.Permissions
	limits      *limits.Limits
	timeout     time.Duration
	log         *slog.Logger
}

// New returns the Connections of a node. The caller must also run EndOwned.
func New(c Config) *Connections {
	return &Connections{
		cluster: c.Node, catalog: c.Catalog, everywhere: c.Everywhere, view: c.View, clients: c.Clients, policies: c.Policies, serving: c.Serving, logins: c.Logins,
		permissions: c.Permissions, limits: c.Limits, timeout: c.Timeout, log: c.Log,
	}
}

// ConnectionInfo is what operators see of a client's connection.
type ConnectionInfo = clients.ConnectionInfo

// Closing is why a connection is ended.
type Closing = clients.Closing

// The states of a connection.
const (
	ConnectionRunning = "running"
	ConnectionBlocked = "blocked" // its publishers are held back
	ConnectionFlow    = "flow"    // its publishers are held back by a rate (VH-14)
	ConnectionClosing = "closing" // its client has been asked to close it, and has not done so yet
)

// ClientConnections returns the connections to all nodes, sorted by node and age, and the nodes that did not answer. If
// vhost or user is not empty, it returns only connections of that vhost or user. A caller with the tag monitoring sees
// all connections, one with the tag management those of its own user (VH-12).
func (cs *Connections) ClientConnections(ctx context.Context, vhost, user string) (all []ConnectionInfo, silent []string, err error) {
	own, err := cs.ownOnly(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, nodes, err := cs.everywhere.Connections(ctx)
	if err != nil {
		return nil, nil, failure.Translate(err, failure.Error{Kind: "connections"})
	}
	silent = id.Names(nodes)
	all = slices.DeleteFunc(all, func(x ConnectionInfo) bool { return !has(x.VHost, vhost) || !has(x.User, user) || !has(x.User, own) })
	return all, silent, nil
}

// has reports whether a name is among names with commas between; an empty one always is.
func has(names, name string) bool {
	return name == "" || slices.Contains(strings.Split(names, ","), name)
}

// ownOnly returns the user whose connections are all that the caller may see; "": it may see all (VH-12).
func (cs *Connections) ownOnly(ctx context.Context) (user string, err error) {
	if err := cs.logins.Require(ctx, identity.TagManagement); err != nil {
		return "", err
	}
	if who, err := cs.logins.Who(ctx); err == nil && who != nil && !who.Is(identity.TagMonitoring) {
		return who.User(), nil
	}
	return "", nil
}

// ClientConnection returns a connection to any node. name is the connection's id, its name, or the name that its client
// gave it. Errors: NotFound; Unavailable if a node that may have it did not answer; PreconditionFailed if several
// connections have the name.
func (cs *Connections) ClientConnection(ctx context.Context, name string) (ConnectionInfo, error) {
	about := failure.Error{Kind: "connection", Name: name}
	all, silent, err := cs.ClientConnections(ctx, "", "")
	if err != nil {
		return ConnectionInfo{}, err
	}
	all = named(all, name)
	switch {
	case len(all) == 1:
		return all[0], nil
	case len(all) > 1:
		about.Class, about.Reason = failure.PreconditionFailed, strconv.Itoa(len(all))+" connections have this name; name the id of one"
	case len(silent) > 0:
		about.Class, about.Reason = failure.Unavailable, "is not to be found, but "+strings.Join(silent, ", ")+" did not answer; try again"
	default:
		about.Class, about.Reason = failure.NotFound, "does not exist"
	}
	return ConnectionInfo{}, &about
}

// named returns the connections that a name refers to. Ids come first, then addresses, then the names that clients
// choose, so that a client cannot choose a name that hides another connection.
func named(all []ConnectionInfo, name string) []ConnectionInfo {
	for _, of := range []func(ConnectionInfo) string{
		func(x ConnectionInfo) string { return x.ID },
		func(x ConnectionInfo) string { return x.Name },
		func(x ConnectionInfo) string { return x.ClientName },
	} {
		var found []ConnectionInfo
		for _, x := range all {
			if of(x) == name {
				found = append(found, x)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}
