package broker

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/message"
)

// ConsumerInfo is what operators are told of a client's consumer.
type ConsumerInfo = cluster.ClientConsumer

// consumers are those of this node's clients that operators see: neither cancelled nor closed.
type consumers struct {
	mu   sync.Mutex
	live map[*Consumer]struct{}
}

func newConsumers() *consumers { return &consumers{live: map[*Consumer]struct{}{}} }

// origin is what operators are told of a consumer that does not change, and its connection.
type origin struct {
	info       ConsumerInfo
	connection *Connection // nil: this node's own
}

func (b *Broker) originOf(ctx context.Context, about Error, o *Consume) origin {
	x := origin{connection: connectionOf(ctx), info: ConsumerInfo{
		VHost: about.VHost, Queue: about.Name, Tag: asText(o.Tag), Prefetch: o.Prefetch, Priority: o.Priority,
		AutoAck: o.AutoAck, Exclusive: o.Exclusive, SinceMs: time.Now().UnixMilli(),
	}}
	if len(o.Arguments) > 0 {
		x.info.Arguments = message.AppendTable(nil, o.Arguments)
	}
	if who, err := b.Who(ctx); err == nil && who != nil {
		x.info.User = who.User()
	}
	return x
}

// show has operators see the consumer, hide no longer.
func (c *Consumer) show() {
	s := c.b.consumers
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[c] = struct{}{}
}

func (c *Consumer) hide() {
	s := c.b.consumers
	s.mu.Lock()
	delete(s.live, c)
	s.mu.Unlock()
	if c.uncount != nil {
		c.uncount()
	}
}

// look returns what operators are told; false if the queue has ended it. Ids of connections
// begin with prefix.
func (c *Consumer) look(prefix string) (x ConsumerInfo, ok bool) {
	c.mu.Lock()
	from := c.origin
	c.mu.Unlock()
	x = from.info
	if from.connection != nil {
		if conn, _, ok := from.connection.info(prefix); ok {
			x.Connection, x.ConnectionName, x.Peer = conn.ID, conn.Name, conn.Peer
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	x.Activity = c.active.String()
	x.Unsettled, x.Buffered = c.open.count(), uint64(len(c.arrived)-c.at) // not below 0
	return x, c.ended == nil
}

// String returns how operators see it.
func (a Activity) String() string { return [...]string{"shared", "active", "waiting"}[a] }

// count returns how many ids are delivered and not decided.
func (u *undecided) count() uint64 {
	n := u.last - u.base
	for _, w := range u.decided {
		n -= uint64(bits.OnesCount64(w)) // 0 to 64
	}
	return n
}

// Consumers implements cluster.Connections.
func (o ownConnections) Consumers(vhost, queue string) []ConsumerInfo {
	s := o.b.consumers
	s.mu.Lock()
	var those []*Consumer
	for c := range s.live {
		if x := &c.origin.info; (vhost == "" || x.VHost == vhost) && (queue == "" || x.Queue == queue) {
			those = append(those, c)
		}
	}
	s.mu.Unlock()
	prefix := o.prefix()
	all := make([]ConsumerInfo, 0, len(those))
	for _, c := range those {
		if x, ok := c.look(prefix); ok {
			all = append(all, x)
		}
	}
	return all
}

// Consumers returns the consumers of the clients of all nodes, by queue and age, and the nodes
// that did not answer. What vhost and queue leave out is not among them; "" leaves out none. It is
// for those who see the whole vhost (VH-12).
func (b *Broker) Consumers(ctx context.Context, vhost, queue string) (all []ConsumerInfo, silent []string, err error) {
	if err := b.wholeSight(ctx, vhost); err != nil {
		return nil, nil, err
	}
	cl, err := b.attachedCluster()
	if err != nil {
		return nil, nil, err
	}
	all, nodes, err := cl.ClientConsumers(ctx, vhost, queue)
	if err != nil {
		return nil, nil, translate(err, Error{Kind: "consumers"})
	}
	slices.SortFunc(all, func(a, b ConsumerInfo) int {
		return cmp.Or(cmp.Compare(a.VHost, b.VHost), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.SinceMs, b.SinceMs),
			cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.Tag, b.Tag))
	})
	return all, namesOfNodes(nodes), nil
}
