package amqp

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/incoming"
)

// Defaults of IncomingLimits.
const (
	DefaultIncomingConnectionBytes = 128 << 20
	DefaultIncomingTimeout         = 2 * time.Minute
	// IncomingSlack is the minimum by which the bound of a connection exceeds the largest body.
	IncomingSlack = 1 << 20
)

// Incoming bounds the memory of messages whose bodies are still arriving: for all listeners of a
// node by its budget, and for each connection. Bytes count when they arrive, not when they are
// announced. All methods may be called concurrently.
//
// A connection that needs more than the node has left waits and is not read meanwhile. The
// connection with the oldest incomplete message always gets what it asks for. So some message can
// always complete, and the node exceeds its own bound by at most the bound of one connection.
type Incoming struct {
	timeout atomic.Int64 // nanoseconds
	budget  *incoming.Budget

	mu      sync.Mutex // guards what follows, and conn.asked
	limits  IncomingLimits
	used    int64     // of the budget
	begun   list.List // *charge, oldest first
	waiting list.List // *claim, in the order of arrival

	waits, refused, late atomic.Uint64
}

// IncomingStats are the present figures of incomplete messages, and counts since the start.
type IncomingStats struct {
	Bytes   int64
	Waiting int // connections that wait for room
	// Waits is how often a connection waited for room. Refused is how many connections were closed at
	// their own bound. Late is how many channels were closed because a message took too long.
	Waits, Refused, Late uint64
}

// charge is the memory that one message's content has taken from Incoming.
type charge struct {
	c     *conn
	bytes int64         // guarded by Incoming's mu
	at    *list.Element // its place in begun, guarded by Incoming's mu; nil: it holds nothing
}

// claim is a request for bytes, which may have to wait.
type claim struct {
	x       *charge
	n       int64
	at      *list.Element
	granted atomic.Bool
}

// IncomingLimits are the bounds; zero values mean the defaults.
type IncomingLimits struct {
	// ConnectionBytes bounds the messages of a connection. It must have room for the largest message
	// and IncomingSlack; 0: 128 MiB.
	ConnectionBytes int64
	// Timeout bounds the time from basic.publish to the last byte of the body, not counting the time
	// for which the connection is held back; 0: 2 min. When it is exceeded, the channel is closed.
	Timeout time.Duration
}

// NewIncoming returns the bounds for the listeners of a node, within its budget; nil: a budget of
// 256 MiB.
func NewIncoming(b *incoming.Budget, l IncomingLimits) *Incoming {
	if b == nil {
		b = incoming.New(0)
	}
	in := &Incoming{budget: b}
	in.Limit(l)
	b.WhenFreed(func() { wake(in.freed()) })
	return in
}

// Limit changes the bounds. Connections keep what they hold already.
func (in *Incoming) Limit(l IncomingLimits) {
	setDefault(&l.ConnectionBytes, DefaultIncomingConnectionBytes)
	setDefault(&l.Timeout, DefaultIncomingTimeout)
	in.timeout.Store(int64(l.Timeout))
	in.mu.Lock()
	defer in.mu.Unlock()
	in.limits = l
}

// freed grants the claims that have room now.
func (in *Incoming) freed() (free []*conn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.serve()
}

// connectionBytes returns the limit of a connection.
func (in *Incoming) connectionBytes() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.limits.ConnectionBytes
}

// allowed returns the time limit of a message.
func (in *Incoming) allowed() time.Duration { return time.Duration(in.timeout.Load()) }

// Stats returns the present figures.
func (in *Incoming) Stats() IncomingStats {
	in.mu.Lock()
	used, waiting := in.used, in.waiting.Len()
	in.mu.Unlock()
	return IncomingStats{Bytes: used, Waiting: waiting, Waits: in.waits.Load(), Refused: in.refused.Load(), Late: in.late.Load()}
}

// scarce reports whether any message waits for room, over AMQP or another protocol.
func (in *Incoming) scarce() bool { return in.budget.Scarce() }

// take gives n bytes to a content, or returns the claim with which the content waits for them. over
// reports that the connection is at its own limit.
func (in *Incoming) take(x *charge, n int64) (wait *claim, over bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if x.c.asked+n > in.limits.ConnectionBytes {
		in.refused.Add(1)
		return nil, true
	}
	x.c.asked += n
	wait = &claim{x: x, n: n}
	if in.room(wait, in.waiting.Len() == 0) {
		in.give(wait)
		return nil, false
	}
	wait.at = in.waiting.PushBack(wait)
	in.budget.Wait(1)
	in.waits.Add(1)
	return wait, false
}

// room takes the bytes of a claim from the budget: always for the first connection, for others in
// turn if there is enough.
func (in *Incoming) room(w *claim, inTurn bool) bool {
	if in.begun.Len() == 0 || in.first() == w.x.c {
		in.budget.Add(w.n)
		return true
	}
	return inTurn && in.budget.Take(w.n)
}

// first returns the connection that never waits; nil: no message is arriving.
func (in *Incoming) first() *conn {
	if e := in.begun.Front(); e != nil {
		if x, ok := e.Value.(*charge); ok {
			return x.c
		}
	}
	return nil
}

// give grants a claim whose bytes the budget has already set aside. It needs mu. A charge enters
// begun with its first bytes, and that order decides who never waits.
func (in *Incoming) give(w *claim) {
	in.used += w.n
	if w.x.bytes += w.n; w.x.at == nil {
		w.x.at = in.begun.PushBack(w.x)
	}
	w.granted.Store(true)
}

// leave gives up a claim, unless it was granted.
func (in *Incoming) leave(w *claim) { wake(in.withdraw(w)) }

// withdraw removes a claim that was not granted, and grants others what that makes room for. A
// granted claim stays: its bytes belong to the charge.
func (in *Incoming) withdraw(w *claim) (free []*conn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if w.granted.Load() {
		return nil
	}
	in.waiting.Remove(w.at)
	in.budget.Wait(-1)
	w.x.c.asked -= w.n
	return in.serve()
}

// release returns what a content holds.
func (in *Incoming) release(x *charge) {
	if in.reclaim(x) {
		in.budget.NotifyFreed()
	}
}

// reclaim frees what a content holds; false if it held nothing. The caller notifies the budget
// without mu, which freed takes.
func (in *Incoming) reclaim(x *charge) (held bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if x.at == nil {
		return false
	}
	in.begun.Remove(x.at)
	in.used -= x.bytes
	in.budget.GiveBack(x.bytes)
	x.c.asked -= x.bytes
	x.bytes, x.at = 0, nil
	return true
}

// serve grants the claims that have room, in order, and always those of the first connection. It
// returns the connections that may continue.
func (in *Incoming) serve() (free []*conn) {
	inTurn := true
	var next *list.Element
	for e := in.waiting.Front(); e != nil; e = next {
		next = e.Next()
		w, ok := e.Value.(*claim)
		if !ok {
			continue
		}
		if got := in.room(w, inTurn); !got {
			inTurn = false
		} else {
			in.waiting.Remove(e)
			in.budget.Wait(-1)
			in.give(w)
			free = append(free, w.x.c)
		}
	}
	return free
}

// wake makes connections check whether they may continue.
func wake(free []*conn) {
	for _, c := range free {
		c.mu.Lock()
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}
