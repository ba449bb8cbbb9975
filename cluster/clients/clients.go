// Package clients knows what the clients of one node have open: connections, with what limits
// count of them, consumers, and the node's figures as gateway. The use cases write it; the node's
// part of the cluster reads it, for operators and for other nodes.
package clients

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"sync"

	"github.com/quorate/quorate/id"
)

// ConnectionInfo is what is known of a client's connection to a node.
type ConnectionInfo struct {
	Node           id.NodeID
	ID             string // node/epoch/number
	Name           string // both ends' addresses
	Protocol       string
	TLS            bool
	User, VHost    string
	Peer, Local    string // the client's address, and the node's
	Channels       int
	State          string
	ClientName     string // that the client gave it
	Product        string // of the client, with its version
	SinceMs        int64  // Unix time
	Received, Sent uint64 // bytes
	// Mechanism is how its user logged in; FrameMax in bytes, ChannelMax and HeartbeatSeconds
	// are what was agreed on. They are those of AMQP.
	Mechanism                              string
	FrameMax, ChannelMax, HeartbeatSeconds uint32
	// Properties are what the client says of itself, as message.AppendTable writes them; nil:
	// none.
	Properties []byte
}

// Closing is why a connection is ended.
type Closing struct {
	By     string // the user; "": nobody logs in
	Reason string // "": none is given
}

// Usage is what clients have open on one or more nodes (VH-4).
type Usage struct {
	UserConnections, UserChannels, UserConsumers    int64
	VHostConnections, VHostChannels, VHostConsumers int64
	QueueConsumers                                  int64
}

// Count is something that a limit bounds (VH-4).
type Count struct {
	Kind  CountKind
	Name  string      // of the user or vhost
	Queue id.QueueUID // of a queue, which has no name then
}

// CountKind says what is counted.
type CountKind uint8

// What limits bound.
const (
	UserConnections CountKind = iota
	UserChannels
	UserConsumers
	VHostConnections
	VHostChannels
	VHostConsumers
	QueueConsumers
	CountKinds // how many there are
)

// Registry is what the clients of one node have open. All methods may be called concurrently.
type Registry struct {
	Counters Counters

	mu    sync.Mutex // guards what follows
	live  map[string]*Connection
	count map[Count]int64
	shown uint64 // how many connections operators have seen, or could

	consumers consumers
	quotas    quotaGates
	ended     chan struct{} // of capacity 1: a connection has ended
}

// New returns a registry of a node without clients.
func New() *Registry {
	return &Registry{
		live: map[string]*Connection{}, count: map[Count]int64{}, ended: make(chan struct{}, 1),
		consumers: consumers{live: map[*Consumer]struct{}{}}, quotas: quotaGates{of: map[QuotaSubject]QuotaGate{}},
	}
}

// Connect begins a connection to this node. It lasts until Close, or as long as this process.
func (r *Registry) Connect() *Connection {
	c := &Connection{r: r, key: rand.Text(), counts: map[Count]bool{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live[c.key] = c
	return c
}

// Alive reports whether a key is that of a connection of this process that has not ended.
func (r *Registry) Alive(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[key] != nil
}

// Ended returns a channel on which there is something after connections have ended. It has one
// reader.
func (r *Registry) Ended() <-chan struct{} { return r.ended }

// Add counts so many more, and returns how many there are then.
func (r *Registry) Add(k Count, n int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addLocked(k, n)
}

// addLocked returns the new count. r.mu is held. Counts of 0 are not kept: names come and go.
func (r *Registry) addLocked(k Count, n int64) int64 {
	if r.count[k] += n; r.count[k] == 0 {
		delete(r.count, k)
	}
	return r.count[k]
}

// Usage is what this node has of a user, of a vhost and of a queue.
func (r *Registry) Usage(user, vhost string, queue id.QueueUID) Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := func(k CountKind, name string) int64 { return r.count[Count{Kind: k, Name: name}] }
	return Usage{
		UserConnections: of(UserConnections, user), UserChannels: of(UserChannels, user), UserConsumers: of(UserConsumers, user),
		VHostConnections: of(VHostConnections, vhost), VHostChannels: of(VHostChannels, vhost), VHostConsumers: of(VHostConsumers, vhost),
		QueueConsumers: r.count[Count{Kind: QueueConsumers, Queue: queue}],
	}
}

// each calls do for the connections that operators see. Ids begin with prefix.
func (r *Registry) each(prefix string, do func(x ConnectionInfo, end func(Closing))) {
	r.mu.Lock()
	live := slices.Collect(maps.Values(r.live))
	r.mu.Unlock()
	for _, c := range live {
		if x, end, ok := c.info(prefix); ok {
			do(x, end)
		}
	}
}

// List returns the connections that operators see, the oldest first. Their ids begin with prefix.
func (r *Registry) List(prefix string) []ConnectionInfo {
	var all []ConnectionInfo
	r.each(prefix, func(x ConnectionInfo, _ func(Closing)) { all = append(all, x) })
	slices.SortFunc(all, func(a, b ConnectionInfo) int {
		return cmp.Or(cmp.Compare(a.SinceMs, b.SinceMs), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// End ends the connection of an id that begins with prefix, and reports whether there was one.
func (r *Registry) End(prefix, id string, why Closing) bool {
	found := false
	r.each(prefix, func(x ConnectionInfo, end func(Closing)) {
		if x.ID == id {
			found = true
			end(why)
		}
	})
	return found
}

// EndAll ends all connections that operators see.
func (r *Registry) EndAll(why Closing) {
	r.each("", func(_ ConnectionInfo, end func(Closing)) { end(why) })
}
