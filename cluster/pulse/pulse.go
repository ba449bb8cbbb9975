package pulse

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// lateAfter is how long after it was due a heartbeat counts as late.
const lateAfter = 50 * time.Millisecond

// Pulse is what the heartbeats between this node and a peer show. Of two nodes the one with
// the smaller id opens the connection and asks, the other one answers at once; each ping
// says which answer came, so that both know of both directions. mu guards what is below it.
type Pulse struct {
	Node id.NodeID // the peer
	// Lines are the connections with the peer for all else.
	Lines Lines

	shared *shared
	asks   bool
	due    *time.Timer // a heartbeat is late

	mu      sync.Mutex
	conn    net.Conn      // nil: not connected
	epoch   id.Epoch      // of the peer, on conn; 0: never connected
	refused func() error  // returns why this node refuses the peer now
	number  uint64        // of the last ping that this node sent if it asks, else heard
	heard   uint64        // of the last answer that came to the node which asks
	asked   time.Duration // when ping number was sent, by the clock for measuring
	sent    time.Time     // when it was sent
	proven  time.Time     // when the newest heartbeat was sent that has gone both ways; zero: none has
	since   time.Time     // of the oldest ping that was not answered, or whose answer did not come; zero: none
	last    time.Time     // when the peer last sent something; zero: never
	starved uint32        // what the peer last reported about itself
	drains  bool          // the same
}

// Serve handles what arrives on a connection for heartbeats until it ends. The newest connection counts: the previous
// one, of the same or an older epoch, is closed. At each Recheck, refused returns why this node refuses the peer, or nil.
func (p *Pulse) Serve(conn net.Conn, r *bufio.Reader, epoch id.Epoch, refused func() error) error {
	p.mu.Lock()
	old := p.conn
	if old != nil && p.epoch > epoch {
		defer p.mu.Unlock()
		return &OverError{Node: p.Node, Epoch: epoch, Newest: p.epoch}
	}
	restarted := p.epoch != epoch
	p.conn, p.epoch, p.refused, p.number, p.heard = conn, epoch, refused, 0, 0
	p.since, p.proven, p.last, p.drains = time.Time{}, time.Time{}, time.Now(), false
	p.mu.Unlock()
	if c := p.shared.config.Clock; c != nil && restarted {
		c.Restarted(p.Node)
	}
	if old != nil {
		_ = old.Close() // it is given up
	}
	defer p.end(conn)
	p.Expect()
	p.shared.run()
	if p.asks {
		p.ask()
	}
	for {
		var b nodev1.Ping
		if err := Read(r, &b); err != nil {
			return fmt.Errorf("heartbeats of node %q: %w", p.Node, err)
		}
		came := p.elapsed()
		asked, answers := p.askedFor(&b)
		if now := time.Now(); p.hear(now, &b) {
			p.unstick(p.provenFor(now))
		} else {
			p.Late()
		}
		p.Expect()
		hearClocks(p.shared.config.Clock, p.Node, p.asks, b.GetClocks(), clock.Exchange{Asked: asked, Heard: came}, answers)
		if answers && b.GetNumber() == 1 {
			p.ask() // the peer has not received yet what was measured
		}
		if heartbeats := p.shared.config.Heartbeats; heartbeats != nil && b.GetReports() {
			heartbeats.HandleHeartbeat(p.Node, Heartbeat{Led: b.GetLed(), LedHash: b.GetLedHash(), Stalled: b.GetStalled()})
		}
		if !p.asks {
			p.send(conn, &nodev1.Ping{Number: b.GetNumber()}, came)
		}
	}
}

// OverError refuses an incarnation of a peer that a newer one has taken the place of.
type OverError struct {
	Node          id.NodeID
	Epoch, Newest id.Epoch
}

// Error implements error.
func (e *OverError) Error() string {
	return fmt.Sprintf("pulse: node %q in epoch %d: epoch %d is connected", e.Node, e.Epoch, e.Newest)
}

// end takes the connection off, unless a newer one has its place already.
func (p *Pulse) end(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == conn {
		p.conn = nil
	}
}

// ask sends a ping, if there is a connection.
func (p *Pulse) ask() {
	p.mu.Lock()
	conn := p.conn
	if conn == nil {
		p.mu.Unlock()
		return
	}
	p.number++
	p.asked, p.sent = p.elapsed(), time.Now()
	if p.since.IsZero() {
		p.since = p.sent
	}
	b := &nodev1.Ping{Number: p.number, Heard: p.heard}
	p.mu.Unlock()
	p.send(conn, b, 0)
}

// say sends a heartbeat now: a ping, or the newest answer once more, which is not used to measure times.
func (p *Pulse) say() {
	if p.asks {
		p.ask()
		return
	}
	p.mu.Lock()
	conn, number := p.conn, p.number
	p.mu.Unlock()
	if conn != nil && number > 0 {
		p.send(conn, &nodev1.Ping{Number: number}, 0)
	}
}

// send writes a heartbeat with what this node reports about itself. came is when the heartbeat that it answers
// arrived, 0 if it answers none. The connection is given up long before its buffers are full of heartbeats that
// nobody reads, so this does not block.
func (p *Pulse) send(conn net.Conn, b *nodev1.Ping, came time.Duration) {
	b.Starved, b.Drains = p.shared.starved.share.Load(), p.shared.drains.Load()
	if heartbeats := p.shared.config.Heartbeats; heartbeats != nil {
		says := heartbeats.Heartbeat(p.Node)
		b.Reports, b.Led, b.LedHash, b.Stalled = true, says.Led, says.LedHash, says.Stalled
	}
	b.Clocks = clocksTo(p.shared.config.Clock, p.Node, came)
	if Write(conn, b) != nil {
		_ = conn.Close() // its reader reports that
	}
}

// hear takes a heartbeat, and reports whether all before it went both ways.
func (p *Pulse) hear(now time.Time, b *nodev1.Ping) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := b.GetNumber()
	switch {
	case p.asks && n >= p.number:
		p.since, p.proven = time.Time{}, p.sent
	case !p.asks && b.GetHeard()+1 >= n:
		if p.number > 0 {
			p.proven = p.last // the answer of that moment came
		}
		p.since = time.Time{}
	case p.asks:
		p.since = now // an answer that comes late is progress
	case b.GetHeard() > p.heard, p.since.IsZero():
		p.since = p.last // the answer of that moment did not come
	}
	p.last = now
	if p.asks {
		p.heard = n
	} else {
		p.number, p.heard = n, b.GetHeard()
	}
	p.starved, p.drains = b.GetStarved(), b.GetDrains()
	return p.since.IsZero()
}

// unstick gives up the connections with the peer that are stuck, now that a heartbeat sent so long ago has gone both
// ways. The peer learns of it at once, as its end is reset.
func (p *Pulse) unstick(proven time.Duration) {
	for _, n := range p.Lines.All() {
		r, known := n.state(n.Conn)
		if !known || !r.stuck(proven) {
			if n.Passed != nil {
				n.Passed()
			}
			continue
		}
		p.shared.stuck.Add(1)
		n.GiveUp(fmt.Errorf("node %q answers heartbeats, but the system would send the rest again only in %v, after %d attempts",
			p.Node, (r.until - r.since).Round(time.Millisecond), r.fails))
		Reset(n.Conn)
	}
}

// provenFor returns how long ago the newest heartbeat was sent that has gone both ways; if none has, longer than any wait.
func (p *Pulse) provenFor(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.proven)
}

// Unanswered reports for how long a heartbeat has been missing in either direction, 0 if none is. A node
// that waits to be asked holds nothing against the peer before its own connection was up.
func (p *Pulse) Unanswered(now, began time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := p.last
	if heard.Before(began) {
		heard = began
	}
	return p.missing(now, heard)
}

// OverdueFor returns for how long the next heartbeat of the peer has been due, 0 if none ever came.
func (p *Pulse) OverdueFor(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.IsZero() {
		return 0
	}
	return max(0, now.Sub(p.last)-p.shared.config.Every)
}

// missing is Unanswered for a peer that was last heard at a time. p.mu is held.
func (p *Pulse) missing(now, heard time.Time) time.Duration {
	var d time.Duration
	if !p.since.IsZero() {
		d = max(1, now.Sub(p.since))
	}
	if !p.asks {
		d = max(d, now.Sub(heard)-p.shared.config.Every)
	}
	return d
}

// Leniency is for how much longer the peer may be silent than where none lacks processors.
func (p *Pulse) Leniency() time.Duration {
	return leniency(max(p.shared.starved.share.Load(), p.said()), p.shared.config.Timeout)
}

// said is what the peer last reported as the share of the time for which it lacked a processor.
func (p *Pulse) said() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starved
}

// Patience is for how long the peer may be silent before its connection is given up.
func (p *Pulse) Patience() time.Duration { return p.shared.config.Timeout + p.Leniency() }

// Expect waits for the next heartbeat.
func (p *Pulse) Expect() { p.due.Reset(p.shared.config.Every + lateAfter) }

// Late is called without the lock: what it notifies may ask for Silent at once.
func (p *Pulse) Late() {
	if heartbeats := p.shared.config.Heartbeats; heartbeats != nil {
		heartbeats.Late(p.Node)
	}
}

// Asks reports whether this node opens the connection for heartbeats, and asks on it.
func (p *Pulse) Asks() bool { return p.asks }

// Drains reports whether the peer takes no leadership over, by its last heartbeat.
func (p *Pulse) Drains() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drains
}

// Again has the peer looked at once more, soon.
func (p *Pulse) Again() { p.due.Reset(lateAfter) }

// Judges reports whether silence counts against the peer of a connection that began at a time with an epoch of it. One that has to ask
// and never did may have no way here; with the connection of its process it has one,
// although the first heartbeat of this connection may never come.
func (p *Pulse) Judges(began time.Time, epoch id.Epoch) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asks || !p.last.Before(began) || p.conn != nil && p.epoch == epoch
}

// GiveUp ends a connection on which all is silent: it proves no longer that the peer has a
// way here.
func (p *Pulse) GiveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		_ = p.conn.Close() // its reader reports that
		p.conn = nil
	}
}

// recheck ends the connection of a peer that is refused now.
func (p *Pulse) recheck() {
	p.mu.Lock()
	conn, refused := p.conn, p.refused
	p.mu.Unlock()
	if conn != nil && refused() != nil {
		_ = conn.Close() // it is given up
	}
}

// drop forgets a peer that was removed.
func (p *Pulse) drop() {
	p.due.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		_ = p.conn.Close() // it is given up
	}
}

// elapsed reads the clock for measuring; 0 without one.
func (p *Pulse) elapsed() time.Duration {
	if c := p.shared.config.Clock; c != nil {
		return c.Elapsed()
	}
	return 0
}

// askedFor reports whether a heartbeat answers the newest ping, and when that was sent.
func (p *Pulse) askedFor(b *nodev1.Ping) (asked time.Duration, answers bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.asks && b.GetNumber() == p.number
}
