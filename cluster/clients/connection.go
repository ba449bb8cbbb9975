package clients

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Connection is a client's connection to this node. All methods may be called concurrently.
type Connection struct {
	r   *Registry
	key string

	entering sync.Mutex // held while it is counted towards something

	mu     sync.Mutex // guards what follows
	ended  bool
	counts map[Count]bool // what it counts towards
	shown  *shown         // nil: operators do not see it
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
	counts := c.counts
	c.counts, c.ended = nil, true
	c.mu.Unlock()
	c.r.mu.Lock()
	delete(c.r.live, c.key)
	for k := range counts {
		c.r.addLocked(k, -1)
	}
	c.r.mu.Unlock()
	select {
	case c.r.ended <- struct{}{}:
	default:
	}
}

// Enter counts the connection towards something, once, and reports whether it just did. admit
// counts one more, by Registry.Add, unless it refuses.
func (c *Connection) Enter(k Count, admit func() error) (first bool, err error) {
	if c.counted(k) {
		return false, nil
	}
	c.entering.Lock() // its calls do not stand in each other's way
	defer c.entering.Unlock()
	if c.counted(k) {
		return false, nil
	}
	if err := admit(); err != nil {
		return false, err
	}
	if c.take(k) {
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

// take notes what was counted; false: the connection has ended meanwhile.
func (c *Connection) take(k Count) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.counts[k] = true
	return true
}

// Show has operators see the connection, and end it. look tells what it is now; user and vhost
// that it leaves out are those that count the connection. Both functions may be called from any
// goroutine and must not block.
func (c *Connection) Show(look func() ConnectionInfo, end func(Closing)) {
	c.r.mu.Lock()
	c.r.shown++
	n := c.r.shown
	c.r.mu.Unlock()
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
