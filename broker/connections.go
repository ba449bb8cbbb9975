package broker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
)

// ConnectionInfo is what operators are told of a client's connection.
type ConnectionInfo = cluster.ClientConnection

// Closing is why a connection is ended.
type Closing = cluster.Closing

// The states of a connection.
const (
	ConnectionRunning = "running"
	ConnectionBlocked = "blocked" // its publishes are held back
	ConnectionFlow    = "flow"    // the same, by a rate (VH-14)
	ConnectionClosing = "closing" // its client is told so, and has not gone yet
)

// shown is how operators see a connection, and end it.
type shown struct {
	number uint64
	since  time.Time
	look   func() ConnectionInfo
	end    func(Closing)
}

// Show has operators see the connection, and end it. look tells what it is now; user and vhost
// that it leaves out are those that count the connection. Both functions may be called from any
// goroutine and must not block.
func (c *Connection) Show(look func() ConnectionInfo, end func(Closing)) {
	s := c.b.connections
	s.mu.Lock()
	s.shown++
	n := s.shown
	s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = &shown{number: n, since: time.Now(), look: look, end: end}
}

// info returns what operators are told; false if they are not.
func (c *Connection) info(prefix string) (x ConnectionInfo, end func(Closing), ok bool) {
	c.mu.Lock()
	s, counts := c.shown, slices.Collect(maps.Keys(c.counts))
	c.mu.Unlock()
	if s == nil {
		return x, nil, false
	}
	x = s.look()
	x.ClientName, x.Product = asText(x.ClientName), asText(x.Product)
	x.ID, x.SinceMs = prefix+strconv.FormatUint(s.number, 10), s.since.UnixMilli()
	if x.User == "" {
		x.User = namesOf(counts, userConnections)
	}
	if x.VHost == "" {
		x.VHost = namesOf(counts, vhostConnections)
	}
	return x, s.end, true
}

// asText makes a client's bytes text, which alone nodes can tell one another.
func asText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func namesOf(counts []countOf, kind countKind) string {
	var names []string
	for _, k := range counts {
		if k.kind == kind {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// ownConnections is cluster.Connections.
type ownConnections struct{ b *Broker }

// OwnConnections are those of this node's clients; for cluster.Config.Connections.
func (b *Broker) OwnConnections() cluster.Connections { return ownConnections{b} }

// prefix begins the ids of this node's connections. It is "" before the node is part of a
// cluster, when it has none.
func (o ownConnections) prefix() string {
	cl := o.b.cluster.Load()
	if cl == nil {
		return ""
	}
	node, epoch := cl.Self()
	return string(node) + "/" + strconv.FormatUint(uint64(epoch), 10) + "/"
}

func namesOfNodes(nodes []id.NodeID) (names []string) {
	for _, n := range nodes {
		names = append(names, string(n))
	}
	return names
}

func (o ownConnections) each(do func(x ConnectionInfo, end func(Closing))) {
	prefix := o.prefix()
	s := o.b.connections
	s.mu.Lock()
	live := make([]*Connection, 0, len(s.live))
	for _, c := range s.live {
		live = append(live, c)
	}
	s.mu.Unlock()
	for _, c := range live {
		if x, end, ok := c.info(prefix); ok {
			do(x, end)
		}
	}
}

// List implements cluster.Connections.
func (o ownConnections) List() []ConnectionInfo {
	var all []ConnectionInfo
	o.each(func(x ConnectionInfo, _ func(Closing)) { all = append(all, x) })
	slices.SortFunc(all, func(a, b ConnectionInfo) int {
		return cmp.Or(cmp.Compare(a.SinceMs, b.SinceMs), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// End implements cluster.Connections.
func (o ownConnections) End(id string, why Closing) bool {
	found := false
	o.each(func(x ConnectionInfo, end func(Closing)) {
		if x.ID == id {
			found = true
			end(why)
		}
	})
	return found
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
	cl, err := b.attachedCluster()
	if err != nil {
		return nil, nil, err
	}
	all, nodes, err := cl.ClientConnections(ctx)
	if err != nil {
		return nil, nil, translate(err, Error{Kind: "connections"})
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
	about := Error{Kind: "connection", Name: name}
	all, silent, err := b.ClientConnections(ctx, "", "")
	if err != nil {
		return ConnectionInfo{}, err
	}
	all = slices.DeleteFunc(all, func(x ConnectionInfo) bool { return x.ID != name && x.Name != name })
	switch {
	case len(all) == 1:
		return all[0], nil
	case len(all) > 1:
		about.Class, about.Reason = PreconditionFailed, strconv.Itoa(len(all))+" connections have this name; name the id of one"
	case len(silent) > 0:
		about.Class, about.Reason = Unavailable, "is not to be found, but "+strings.Join(silent, ", ")+" did not answer; try again"
	default:
		about.Class, about.Reason = NotFound, "does not exist"
	}
	return ConnectionInfo{}, &about
}

// EndConnection ends a connection to any node, which is named by its id or its name, with a
// reason that its client is told, over gRPC with the name of the caller. Errors: those of ClientConnection.
func (b *Broker) EndConnection(ctx context.Context, name, reason string) error {
	cl, err := b.attachedCluster()
	if err != nil {
		return err
	}
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
	about := Error{Kind: "connection", Name: name}
	found, err := cl.EndConnection(ctx, x.Node, x.ID, why)
	if err != nil {
		return translate(err, about)
	}
	if !found { // it went meanwhile
		about.Class, about.Reason = NotFound, "does not exist any more"
		return &about
	}
	actOf(ctx).note(Change{Field: "connection", Before: x.Name}, Change{Field: "user", Before: x.User},
		Change{Field: "state", Before: x.State, After: ConnectionClosing}, Change{Field: "reason", After: why.Reason})
	return nil
}
