package connections

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
)

// Connection is a client's connection as a listener sees it. Exclusive queues belong to it and are
// deleted when it has ended, and limits count it (VH-4). The calls of a client have a context
// of WithConnection or WithConnectionID. All methods may be called concurrently.
type Connection struct {
	of   *Connections
	Open *clients.Connection

	mu     sync.Mutex
	queues []id.QueueUID // the exclusive ones that it has declared
}

// Connect begins a connection to this node. It lasts until Close, or until this process ends.
func (cs *Connections) Connect() *Connection { return &Connection{of: cs, Open: cs.clients.Connect()} }

// Show lets operators see the connection and end it. look returns its present state; a user or
// vhost that look leaves out is taken from the limits that count the connection. Both functions may
// be called from any goroutine and must not block.
func (c *Connection) Show(look func() ConnectionInfo, end func(Closing)) { c.Open.Show(look, end) }

// ShowChannels lets operators see the channels of a connection that they see. list returns the present ones; it may be
// called from any goroutine and must not block.
func (c *Connection) ShowChannels(list func() []ChannelInfo) { c.Open.ShowChannels(list) }

// ChannelOpened counts a channel of the connection that was opened (ST-2).
func (c *Connection) ChannelOpened() { c.Open.ChannelOpened() }

// ChannelClosed counts a channel that ChannelOpened has counted and that has ended.
func (c *Connection) ChannelClosed() { c.Open.ChannelClosed() }

// Close ends the connection: its exclusive queues are deleted soon after.
func (c *Connection) Close() { c.Open.Close() }

// Finish is Close, but waits until the queues that belong to the connection are deleted. It waits
// no longer than ctx.
func (c *Connection) Finish(ctx context.Context) {
	c.Close()
	cl := c.of.cluster
	c.mu.Lock()
	queues := c.queues
	c.mu.Unlock()
	for ctx.Err() == nil {
		changed := cl.ViewChanged()
		if queues = existing(cl.View(), queues); len(queues) == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// maxOwned is the number of queues after which a connection forgets those that no longer exist.
const maxOwned = 1000

// Owns records an exclusive queue of the connection, for Finish. A nil *Connection records nothing.
func (c *Connection) Owns(q id.QueueUID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.queues); n > 0 && n%maxOwned == 0 {
		c.queues = existing(c.of.view(), c.queues)
	}
	c.queues = append(c.queues, q)
}

// existing returns those of the queues that still exist.
func existing(v *catalog.View, queues []id.QueueUID) []id.QueueUID {
	return slices.DeleteFunc(queues, func(q id.QueueUID) bool {
		_, there := v.QueueByUID(q)
		return !there
	})
}

// ID returns the connection's name on all nodes, for WithConnectionID. It cannot be guessed,
// because whoever knows it may use what belongs to the connection.
func (c *Connection) ID() (string, error) {
	o, err := c.owner()
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(uint64(o.Epoch), 10) + "." + o.Key + "." + string(o.Node), nil
}

// owner returns the connection as the records of exclusive queues name it. The epoch distinguishes
// it from a connection in an earlier life of the node.
func (c *Connection) owner() (catalog.Owner, error) {
	cl := c.of.cluster
	node, epoch := cl.Self()
	return catalog.Owner{Node: node, Epoch: epoch, Key: c.Open.Key()}, nil
}

// The keys under which a context has its connection, and the owner that WithConnectionID has set.
type (
	connectionKey struct{}
	ownerKey      struct{}
)

// WithConnection returns a context for calls that arrive on the connection.
func WithConnection(ctx context.Context, c *Connection) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// WithConnectionID returns a context for calls that own what the connection with this ID owns,
// whichever node has that connection. Limits still count the connection of WithConnection.
func WithConnectionID(ctx context.Context, text string) (context.Context, error) {
	epoch, rest, _ := strings.Cut(text, ".")
	key, node, ok := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(epoch, 10, 64)
	if !ok || err != nil || key == "" || node == "" {
		return ctx, &failure.Error{
			Class: failure.PreconditionFailed, Kind: "connection", Arg: "connection", Value: strconv.Quote(text),
			Reason: "is not an id that Connect gave; send it back unchanged",
		}
	}
	return context.WithValue(ctx, ownerKey{}, catalog.Owner{Node: id.NodeID(node), Epoch: id.Epoch(n), Key: key}), nil
}

// ConnectionOf returns the connection on which a context's calls arrive, or nil.
func ConnectionOf(ctx context.Context) *Connection {
	c, _ := ctx.Value(connectionKey{}).(*Connection)
	return c
}

// ownerOf returns the owner of the exclusive queues that a context's calls declare; the zero value
// stands for none.
func (cs *Connections) ownerOf(ctx context.Context) (catalog.Owner, error) {
	if o, ok := ctx.Value(ownerKey{}).(catalog.Owner); ok {
		return o, nil
	}
	if c := ConnectionOf(ctx); c != nil {
		return c.owner()
	}
	return catalog.Owner{}, nil
}

// NewOwner is ownerOf for a queue that is to be created. It fails if this node knows that the
// connection has ended.
func (cs *Connections) NewOwner(ctx context.Context, about failure.Error) (catalog.Owner, error) {
	o, err := cs.ownerOf(ctx)
	if err != nil {
		return o, err
	}
	cl := cs.cluster
	if node, epoch := cl.Self(); o.Node == node && o.Epoch == epoch && !cs.clients.Alive(o.Key) {
		about.Class, about.State, about.Arg, about.Value = failure.PreconditionFailed, true, "exclusive", "true"
		about.Reason = "the connection that it shall belong to has ended; connect again"
		return o, &about
	}
	return o, nil
}

// PermitOwner refuses all callers but the owner of an exclusive queue.
func (cs *Connections) PermitOwner(ctx context.Context, q *catalog.QueueRecord) error {
	if q == nil || !q.Exclusive {
		return nil
	}
	o, err := cs.ownerOf(ctx)
	if err != nil {
		return err
	}
	if o != q.Owner {
		return failure.FromCatalog(q.Locked())
	}
	return nil
}
