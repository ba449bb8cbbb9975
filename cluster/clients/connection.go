package clients

import (
	"cmp"
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
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
	// Mechanism is how its user logged in. FrameMax, in bytes, ChannelMax and HeartbeatSeconds are the negotiated
	// values of AMQP.
	Mechanism                              string
	FrameMax, ChannelMax, HeartbeatSeconds uint32
	// Properties are what the client reports about itself, as message.AppendTable writes them; nil: none.
	Properties []byte
}

// Closing is why a connection is ended.
type Closing struct {
	By     string // the user; "": nobody logs in
	Reason string // "": none is given
}

// Connection is a client's connection to this node. All methods may be called concurrently.
type Connection struct {
	r   *connections
	key string

	entering sync.Mutex // held while it is counted towards something

	mu       sync.Mutex // guards what follows
	ended    bool
	counts   map[Count]bool       // what it counts towards
	shown    *shown               // nil: operators do not see it
	channels func() []ChannelInfo // that operators see; nil: its protocol has none
}

// shown is how operators see a connection, and end it.
type shown struct {
	number uint64
	since  time.Time
	look   func() ConnectionInfo
	end    func(Closing)
}

// Key names the connection on this node; it cannot be guessed.
func (c *Connection) Key() string { return c.key }

// Close ends the connection.
func (c *Connection) Close() {
	c.mu.Lock()
	if c.shown != nil && !c.ended {
		c.r.churn.connectionsClosed.Add(1)
	}
	counts := c.counts
	c.counts, c.ended = nil, true
	c.mu.Unlock()
	c.r.mu.Lock()
	delete(c.r.live, c.key)
	for k := range counts {
		c.r.addLocked(k, -1)
	}
	c.r.mu.Unlock()
	wait.Wake(c.r.ended)
}

// Enter counts the connection towards something, once, and reports whether it just did. admit
// counts one more, by Registry.Add, unless it refuses.
func (c *Connection) Enter(k Count, admit func() error) (first bool, err error) {
	if c.counted(k) {
		return false, nil
	}
	c.entering.Lock() // its calls do not block one another
	defer c.entering.Unlock()
	if c.counted(k) {
		return false, nil
	}
	if err := admit(); err != nil {
		return false, err
	}
	if c.mark(k) {
		return true, nil
	}
	c.r.Add(k, -1)
	return false, nil
}

// counted reports whether the connection was counted for it, so that its end is counted once.
func (c *Connection) counted(k Count) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[k]
}

// mark records that the connection was counted for it; false: the connection has ended meanwhile.
func (c *Connection) mark(k Count) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.counts[k] = true
	return true
}

// Show makes the connection visible to operators, who can end it. look returns its present state; if look leaves out
// user and vhost, the ones that count the connection are shown. Both functions may be called from any goroutine and
// must not block.
func (c *Connection) Show(look func() ConnectionInfo, end func(Closing)) {
	c.r.mu.Lock()
	c.r.shown++
	n := c.r.shown
	c.r.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown == nil && !c.ended {
		c.r.churn.connectionsOpened.Add(1)
	}
	c.shown = &shown{number: n, since: time.Now(), look: look, end: end}
}

// ChannelOpened counts a channel of the connection that was opened.
func (c *Connection) ChannelOpened() { c.r.churn.channelsOpened.Add(1) }

// ChannelClosed counts a channel that ChannelOpened has counted and that has ended.
func (c *Connection) ChannelClosed() { c.r.churn.channelsClosed.Add(1) }

// ShowChannels makes the channels of a visible connection visible to operators. list returns the present channels,
// without what the connection knows. It may be called from any goroutine and must not block.
func (c *Connection) ShowChannels(list func() []ChannelInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.channels = list
}

// channelsOf returns the channels of a connection that operators see.
func (c *Connection) channelsOf(x *ConnectionInfo) []ChannelInfo {
	c.mu.Lock()
	list := c.channels
	c.mu.Unlock()
	if list == nil {
		return nil
	}
	all := list()
	for i := range all {
		ch := &all[i]
		ch.Connection, ch.ConnectionName, ch.Peer, ch.User, ch.VHost = x.ID, x.Name, x.Peer, x.User, x.VHost
	}
	return all
}

// info returns what operators see; false if they do not see it.
func (c *Connection) info(prefix string) (x ConnectionInfo, end func(Closing), ok bool) {
	c.mu.Lock()
	s, counts := c.shown, slices.Collect(maps.Keys(c.counts))
	c.mu.Unlock()
	if s == nil {
		return x, nil, false
	}
	x = s.look()
	x.ClientName, x.Product = AsText(x.ClientName), AsText(x.Product)
	x.ID, x.SinceMs = prefix+strconv.FormatUint(s.number, 10), s.since.UnixMilli()
	if x.User == "" {
		x.User = namesOf(counts, UserConnections)
	}
	if x.VHost == "" {
		x.VHost = namesOf(counts, VHostConnections)
	}
	return x, s.end, true
}

// AsText makes a client's bytes text, which alone nodes can exchange.
func AsText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// namesOf returns the names of one kind, sorted, so that equal sets are shown alike.
func namesOf(counts []Count, kind CountKind) string {
	var names []string
	for _, k := range counts {
		if k.Kind == kind {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// connections are those of the clients of this node, with what they count towards.
type connections struct {
	mu    sync.Mutex // guards what follows
	live  map[string]*Connection
	count map[Count]int64
	shown uint64        // how many connections operators have seen, or could
	ended chan struct{} // of capacity 1: a connection has ended
	churn churn
}

func newConnections() connections {
	return connections{live: map[string]*Connection{}, count: map[Count]int64{}, ended: make(chan struct{}, 1)}
}

// Churn returns what clients of this node have opened and closed.
func (r *connections) Churn() Churn {
	c := &r.churn
	closed := Churn{ConnectionsClosed: c.connectionsClosed.Load(), ChannelsClosed: c.channelsClosed.Load()}
	closed.ConnectionsOpened, closed.ChannelsOpened = c.connectionsOpened.Load(), c.channelsOpened.Load() // later, so that none is below
	return closed
}

// Connect begins a connection to this node. It lasts until Close, or as long as this process.
func (r *connections) Connect() *Connection {
	c := &Connection{r: r, key: rand.Text(), counts: map[Count]bool{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live[c.key] = c
	return c
}

// Alive reports whether a key is that of a connection of this process that has not ended.
func (r *connections) Alive(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[key] != nil
}

// Ended returns a channel on which there is something after connections have ended. It has one
// reader.
func (r *connections) Ended() <-chan struct{} { return r.ended }

// each calls do for the connections that operators see. Ids begin with prefix.
func (r *connections) each(prefix string, do func(x ConnectionInfo, c *Connection, end func(Closing))) {
	r.mu.Lock()
	live := slices.Collect(maps.Values(r.live))
	r.mu.Unlock()
	for _, c := range live {
		if x, end, ok := c.info(prefix); ok {
			do(x, c, end)
		}
	}
}

// listed is a connection in a list.
type listed struct {
	ConnectionInfo
	from *Connection
}

// listed returns the connections that operators see, the oldest first. Their ids begin with prefix.
func (r *connections) listed(prefix string) (all []listed) {
	r.each(prefix, func(x ConnectionInfo, c *Connection, _ func(Closing)) { all = append(all, listed{x, c}) })
	slices.SortFunc(all, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.SinceMs, b.SinceMs), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// List returns the connections that operators see, the oldest first. Their ids begin with prefix.
func (r *connections) List(prefix string) (all []ConnectionInfo) {
	for _, x := range r.listed(prefix) {
		all = append(all, x.ConnectionInfo)
	}
	return all
}

// Channels returns the channels of the connections that operators see, those of the oldest first, or those of the
// connection of an id. Ids begin with prefix.
func (r *connections) Channels(prefix, of string) (all []ChannelInfo) {
	for _, x := range r.listed(prefix) {
		if of == "" || x.ID == of {
			all = append(all, x.from.channelsOf(&x.ConnectionInfo)...)
		}
	}
	return all
}

// End ends the connection of an id that begins with prefix, and reports whether there was one.
func (r *connections) End(prefix, id string, why Closing) bool {
	found := false
	r.each(prefix, func(x ConnectionInfo, _ *Connection, end func(Closing)) {
		if x.ID == id {
			found = true
			end(why)
		}
	})
	return found
}

// EndAll ends all connections that operators see.
func (r *connections) EndAll(why Closing) {
	r.each("", func(_ ConnectionInfo, _ *Connection, end func(Closing)) { end(why) })
}

// Add counts so many more, and returns how many there are then.
func (r *connections) Add(k Count, n int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addLocked(k, n)
}

// addLocked returns the new count. r.mu is held. Counts of 0 are not kept: names come and go.
func (r *connections) addLocked(k Count, n int64) int64 {
	if r.count[k] += n; r.count[k] == 0 {
		delete(r.count, k)
	}
	return r.count[k]
}

// Usage is what this node has of a user, of a vhost and of a queue.
func (r *connections) Usage(user, vhost string, queue id.QueueUID) Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := func(k CountKind, name string) int64 { return r.count[Count{Kind: k, Name: name}] }
	return Usage{
		UserConnections: of(UserConnections, user), UserChannels: of(UserChannels, user), UserConsumers: of(UserConsumers, user),
		VHostConnections: of(VHostConnections, vhost), VHostChannels: of(VHostChannels, vhost), VHostConsumers: of(VHostConsumers, vhost),
		QueueConsumers: r.count[Count{Kind: QueueConsumers, Queue: queue}],
	}
}
