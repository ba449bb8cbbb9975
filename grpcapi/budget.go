package grpcapi

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/incoming"
)

// Shares of the node's budget for received bytes that one user and one connection may have.
const (
	receiveUserShare = 2
	receiveConnShare = 4
)

// Room for small messages beyond the budget, when large messages fill it.
const (
	smallShare   = 16 // of the budget: the size up to which a message is small
	reserveShare = 8  // of the budget: what small messages may take together
)

// How many messages may wait for room. Each holds at most Config.WindowBytes that have arrived.
const (
	// waitingShare is the part of the budget that waiting messages of the node may hold; leastWaiting
	// messages may wait in any case. A connection may have a share of receiveConnShare of them.
	waitingShare = 4
	leastWaiting = 64
	// receiveRetry is after what time a refused message may be sent again.
	receiveRetry = time.Second
)

// budget bounds the bytes of messages that are being received, for the node, each user and each
// connection. Messages that exceed a bound wait in order. Those that wait for their own user's or
// connection's bound hold up nobody else, and large messages do not hold up small ones. A single
// message always has room. mu guards everything.
type budget struct {
	node         *incoming.Budget
	window       int64  // what has arrived of a message that waits, at most
	what, advice string // of what it refuses

	mu    sync.Mutex
	used  int64 // of the node's budget
	small int64 // part of used: messages with room in the reserve
	users map[string]int64
	conns map[*countedConn]int64
	held  heldBytes
	wait  list.List            // of *asked
	short bool                 // one of them lacks only room of the node, and no quota holds its user back
	waits map[*countedConn]int // messages that wait, by connection

	waited, refused, late atomic.Uint64
}

// heldBytes is the part of users and conns that belongs to messages that were read and now wait for a quota, or for the
// end of an alarm.
type heldBytes struct {
	users map[string]int64
	conns map[*countedConn]int64
}

// asked is a message that waits for room.
type asked struct {
	conn  *countedConn
	user  string
	bytes int64
	keeps bool          // its call may keep the room while a quota holds it back
	small bool          // it has room in the reserve
	in    chan struct{} // closed when it has room
}

// newBudget returns the gRPC part of the node's budget. It registers to be notified when other protocols give bytes
// back.
func newBudget(node *incoming.Budget, window int) *budget {
	b := &budget{
		node: node, window: int64(window), what: "messages", advice: "send fewer at a time", users: map[string]int64{}, conns: map[*countedConn]int64{}, waits: map[*countedConn]int{},
		held: heldBytes{users: map[string]int64{}, conns: map[*countedConn]int64{}},
	}
	node.WhenFreed(b.freed)
	return b
}

// freed grants room to waiting messages.
func (b *budget) freed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serve()
}

// acquire waits for room; release gives it back. If too many messages wait already, the message is
// refused.
func (b *budget) acquire(ctx context.Context, a *asked) (release func(), err error) {
	a.in = make(chan struct{})
	b.mu.Lock()
	at := b.wait.PushBack(a)
	b.node.Wait(1)
	b.waits[a.conn]++
	b.serve()
	if !a.isIn() {
		b.waited.Add(1)
	}
	if over := b.tooMany(a.conn); over != nil && !a.isIn() {
		b.drop(at)
		b.serve()
		b.refused.Add(1)
		b.mu.Unlock()
		return nil, over
	}
	b.mu.Unlock()
	select {
	case <-a.in:
		return func() { b.release(a) }, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	if a.isIn() { // it got room just now
		b.giveBack(a)
	} else {
		b.drop(at)
	}
	b.mu.Unlock()
	b.node.NotifyFreed() // it may have blocked others
	return nil, ctx.Err()
}

// isIn reports whether the message has got its room.
func (a *asked) isIn() bool {
	select {
	case <-a.in:
		return true
	default:
		return false
	}
}

// drop removes a message from those that wait. mu is held.
func (b *budget) drop(at *list.Element) {
	a, _ := at.Value.(*asked)
	b.wait.Remove(at)
	b.node.Wait(-1)
	if b.waits[a.conn]--; b.waits[a.conn] == 0 {
		delete(b.waits, a.conn)
	}
}

// tooMany returns an error if more messages wait than allowed, on a connection or in all. mu is
// held.
func (b *budget) tooMany(conn *countedConn) error {
	most := max(leastWaiting, b.node.Bytes()/waitingShare/b.window)
	whose, waits := "this node", int64(b.wait.Len())
	if n := int64(b.waits[conn]); n > most/receiveConnShare {
		whose, waits, most = "this connection", n, most/receiveConnShare
	}
	if waits <= most {
		return nil
	}
	return &failure.Error{
		Class: failure.ResourceExhausted, Kind: "message", RetryAfter: receiveRetry,
		Reason: fmt.Sprintf("%d large %s of %s already wait for room; %s", most, b.what, whose, b.advice),
	}
}

// release gives the room of a message back and notifies the other protocols, without mu: freed takes
// it.
func (b *budget) release(a *asked) {
	b.mu.Lock()
	b.giveBack(a)
	b.mu.Unlock()
	b.node.NotifyFreed()
}

// resize changes the room of a message to what it needs. What it needs beyond its room it gets in any case.
func (b *budget) resize(a *asked, bytes int64) {
	b.mu.Lock()
	more := bytes - a.bytes
	a.bytes = bytes
	b.used += more
	if a.small {
		b.small += more
	}
	b.node.Add(more)
	b.users[a.user] += more
	b.conns[a.conn] += more
	b.mu.Unlock()
	if more < 0 {
		b.node.NotifyFreed()
	}
}

// giveBack releases the room of a message. mu is held.
func (b *budget) giveBack(a *asked) {
	b.used -= a.bytes
	if a.small {
		b.small -= a.bytes
	}
	b.node.GiveBack(a.bytes)
	if b.users[a.user] -= a.bytes; b.users[a.user] == 0 {
		delete(b.users, a.user)
	}
	if b.conns[a.conn] -= a.bytes; b.conns[a.conn] == 0 {
		delete(b.conns, a.conn)
	}
}

// serve grants room to waiting messages, oldest first. Messages of users that a quota holds back come last, because
// they may be held back too. mu is held.
func (b *budget) serve() {
	full := false
	for _, held := range []bool{false, true} {
		for at := b.wait.Front(); at != nil; {
			next := at.Next()
			if a, _ := at.Value.(*asked); b.comesLast(a) == held && b.fits(a) {
				if b.take(a, full) {
					b.drop(at)
					close(a.in)
				} else {
					full = true // later ones must not overtake it
				}
			}
			at = next
		}
		if !held {
			b.short = full
		}
	}
}

// comesLast reports whether a message may be held back by a quota, as others of its user are. mu is held.
func (b *budget) comesLast(a *asked) bool { return a.keeps && b.held.users[a.user] > 0 }

// fits reports whether a message is within the limits of its user and connection. A message that no quota can hold
// back, such as one of SettleAndPublish, does not wait for room that held-back messages occupy. mu is held.
func (b *budget) fits(a *asked) bool {
	fits := func(used, held, most int64) bool {
		if !a.keeps {
			used -= held
		}
		return used == 0 || used+a.bytes <= most
	}
	most := b.node.Bytes()
	return fits(b.users[a.user], b.held.users[a.user], most/receiveUserShare) &&
		fits(b.conns[a.conn], b.held.conns[a.conn], most/receiveConnShare)
}

// take takes room for a message from the node's budget, if there is any. full means that others wait for such room.
// mu is held.
func (b *budget) take(a *asked, full bool) bool {
	most := b.node.Bytes()
	switch {
	case b.used == 0:
		b.node.Add(a.bytes) // one message over gRPC always has room
	case !full && b.node.Take(a.bytes):
	case a.bytes <= most/smallShare && b.small+a.bytes <= most/reserveShare:
		b.node.Add(a.bytes)
		b.small += a.bytes
		a.small = true
	default:
		return false
	}
	b.used += a.bytes
	b.users[a.user] += a.bytes
	b.conns[a.conn] += a.bytes
	return true
}

// holds records that a message that was read may be held back from now on or, with sign -1, that it no longer may.
func (b *budget) holds(a *asked, sign int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held.users[a.user] += sign * a.bytes; b.held.users[a.user] == 0 {
		delete(b.held.users, a.user)
	}
	if b.held.conns[a.conn] += sign * a.bytes; b.held.conns[a.conn] == 0 {
		delete(b.held.conns, a.conn)
	}
	if sign > 0 {
		b.serve() // others may pass it
	}
}

// crowded reports whether messages of any protocol wait for room that other messages occupy.
func (b *budget) crowded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.short || b.node.Waiting() > int64(b.wait.Len())
}

// figures returns the bytes that are being received, and the number of messages that wait for room.
func (b *budget) figures() (bytes int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.wait.Len()
}
