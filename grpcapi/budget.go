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

// Shares of the node's budget of bytes that are being received, for one user and one connection.
const (
	receiveUserShare = 2
	receiveConnShare = 4
)

// What small messages have for themselves, beyond the budget when large ones fill it.
const (
	smallShare   = 16 // of the budget: one is small that takes no more
	reserveShare = 8  // of the budget: what they take together
)

// How many messages may wait for room: each keeps windowBytes that have come, at most.
const (
	// waitingShare of the budget is what those of the node may keep; leastWaiting may wait in any case. A connection has
	// receiveConnShare of them.
	waitingShare = 4
	leastWaiting = 64
	// receiveRetry is when one that was refused may be sent again.
	receiveRetry = time.Second
)

// budget bounds the bytes of messages that are being received, for the node, each user and each
// connection: who asks for more waits, in order, and those whose own bound is reached hold up
// nobody else, nor do large ones hold up small ones. A message alone always has room. mu guards everything.
type budget struct {
	node *incoming.Budget

	mu    sync.Mutex
	used  int64 // of the node's
	small int64 // of these, by messages that have room of the reserve
	users map[string]int64
	conns map[*countedConn]int64
	held  heldBytes
	wait  list.List            // of *asked
	short bool                 // one of them lacks the node's room alone, and its user is not held back
	waits map[*countedConn]int // that wait

	waited, refused, late atomic.Uint64
}

// heldBytes are, of users and conns, those of messages that were read and wait for a quota or the end of an alarm.
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
	small bool          // it has room of the reserve
	in    chan struct{} // closed when it has room
}

func newBudget(node *incoming.Budget) *budget {
	b := &budget{
		node: node, users: map[string]int64{}, conns: map[*countedConn]int64{}, waits: map[*countedConn]int{},
		held: heldBytes{users: map[string]int64{}, conns: map[*countedConn]int64{}},
	}
	node.WhenFreed(b.freed)
	return b
}

// freed lets those in that have room.
func (b *budget) freed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serve()
}

// acquire waits for room; release gives it back. Where too many wait already the message is refused.
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
	if a.isIn() { // just now
		b.giveBack(a)
	} else {
		b.drop(at)
	}
	b.mu.Unlock()
	b.node.Tell() // it may have been in the way
	return nil, ctx.Err()
}

func (a *asked) isIn() bool {
	select {
	case <-a.in:
		return true
	default:
		return false
	}
}

// drop takes a message out of those that wait. The caller holds mu.
func (b *budget) drop(at *list.Element) {
	a, _ := at.Value.(*asked)
	b.wait.Remove(at)
	b.node.Wait(-1)
	if b.waits[a.conn]--; b.waits[a.conn] == 0 {
		delete(b.waits, a.conn)
	}
}

// tooMany reports whether more messages wait than may, of a connection or in all. The caller holds mu.
func (b *budget) tooMany(conn *countedConn) error {
	most := max(leastWaiting, b.node.Bytes()/waitingShare/windowBytes)
	whose, waits := "this node", int64(b.wait.Len())
	if n := int64(b.waits[conn]); n > most/receiveConnShare {
		whose, waits, most = "this connection", n, most/receiveConnShare
	}
	if waits <= most {
		return nil
	}
	return &failure.Error{
		Class: failure.ResourceExhausted, Kind: "message", RetryAfter: receiveRetry,
		Reason: fmt.Sprintf("%d large messages of %s wait for room already; send fewer at the same time", most, whose),
	}
}

func (b *budget) release(a *asked) {
	b.mu.Lock()
	b.giveBack(a)
	b.mu.Unlock()
	b.node.Tell()
}

// giveBack takes a message out. The caller holds mu.
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

// serve lets those in that have room: the one that waits for the longest time first, those that may be held back as others
// of their user are after the rest. The caller holds mu.
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
					full = true // who comes later does not overtake it
				}
			}
			at = next
		}
		if !held {
			b.short = full
		}
	}
}

// comesLast reports whether a message may be held back as others of its user are. The caller holds mu.
func (b *budget) comesLast(a *asked) bool { return a.keeps && b.held.users[a.user] > 0 }

// fits reports whether a message has room of its user and its connection. One that no quota holds back, as of
// SettleAndPublish, does not wait for those that one does. The caller holds mu.
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

// take takes the node's room for a message, if there is some; full: others wait for it. The caller holds mu.
func (b *budget) take(a *asked, full bool) bool {
	most := b.node.Bytes()
	switch {
	case b.used == 0:
		b.node.Add(a.bytes) // one of gRPC always has room
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

// holds notes that a message that was read may be held back from now on, or by -1 that it is not any more.
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

// crowded reports whether somebody waits for room that the messages of others take, over whatever protocol.
func (b *budget) crowded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.short || b.node.Waiting() > int64(b.wait.Len())
}

// figures returns the bytes that are being received, and the messages that wait for room.
func (b *budget) figures() (bytes int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.wait.Len()
}
