package broker

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
)

// ConnectionInfo is what operators are told of a client's connection.
type ConnectionInfo = clients.ConnectionInfo

// Closing is why a connection is ended.
type Closing = clients.Closing

// The states of a connection.
const (
	ConnectionRunning = "running"
	ConnectionBlocked = "blocked" // its publishes are held back
	ConnectionFlow    = "flow"    // the same, by a rate (VH-14)
	ConnectionClosing = "closing" // its client is told so, and has not gone yet
)

// Show has operators see the connection, and end it. look tells what it is now; user and vhost
// that it leaves out are those that count the connection. Both functions may be called from any
// goroutine and must not block.
func (c *Connection) Show(look func() ConnectionInfo, end func(Closing)) { c.open.Show(look, end) }

func namesOfNodes(nodes []id.NodeID) (names []string) {
	for _, n := range nodes {
		names = append(names, string(n))
	}
	return names
}

// ClientConnections returns the connections to all nodes, by node and age, and the nodes that
// did not answer. What vhost and user leave out is not among them; "" leaves out nothing. The tag
// monitoring sees all, management those of its own user (VH-12).
func (b *Broker) ClientConnections(ctx context.Context, vhost, user string) (all []ConnectionInfo, silent []string, err error) {
	if err := b.Require(ctx, TagManagement); err != nil {
		return nil, nil, err
	}
	own := ""
	if who, err := b.Who(ctx); err == nil && who != nil && !is(who.user, TagMonitoring) {
		own = who.User()
	}
	cl := b.cluster
	all, nodes, err := cl.ClientConnections(ctx)
	if err != nil {
		return nil, nil, failure.Translate(err, failure.Error{Kind: "connections"})
	}
	silent = namesOfNodes(nodes)
	has := func(names, name string) bool { return name == "" || slices.Contains(strings.Split(names, ","), name) }
	all = slices.DeleteFunc(all, func(x ConnectionInfo) bool { return !has(x.VHost, vhost) || !has(x.User, user) || !has(x.User, own) })
	return all, silent, nil
}

// ClientConnection returns a connection to any node, which is named by its id or its name.
// Errors: NotFound, Unavailable if a node did not answer that may have it, PreconditionFailed
// if several have the name.
func (b *Broker) ClientConnection(ctx context.Context, name string) (ConnectionInfo, error) {
	about := failure.Error{Kind: "connection", Name: name}
	all, silent, err := b.ClientConnections(ctx, "", "")
	if err != nil {
		return ConnectionInfo{}, err
	}
	all = slices.DeleteFunc(all, func(x ConnectionInfo) bool { return x.ID != name && x.Name != name })
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

// EndConnection ends a connection to any node, which is named by its id or its name, with a
// reason that its client is told, over gRPC with the name of the caller. Errors: those of ClientConnection.
func (b *Broker) EndConnection(ctx context.Context, name, reason string) error {
	cl := b.cluster
	x, err := b.ClientConnection(ctx, name)
	if err != nil {
		return err
	}
	who, err := b.Who(ctx)
	if err != nil {
		return err
	}
	why := Closing{Reason: reason}
	if who != nil {
		why.By = who.User()
	}
	about := failure.Error{Kind: "connection", Name: name}
	found, err := cl.EndConnection(ctx, x.Node, x.ID, why)
	if err != nil {
		return failure.Translate(err, about)
	}
	if !found { // it went meanwhile
		about.Class, about.Reason = failure.NotFound, "does not exist any more"
		return &about
	}
	actOf(ctx).note(Change{Field: "connection", Before: x.Name}, Change{Field: "user", Before: x.User},
		Change{Field: "state", Before: x.State, After: ConnectionClosing}, Change{Field: "reason", After: why.Reason})
	return nil
}
