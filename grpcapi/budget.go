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
	wait  list.List            // of *asked
	waits map[*countedConn]int // that wait

	waited, refused, late atomic.Uint64
}

// asked is a message that waits for room.
type asked struct {
	conn  *countedConn
	user  string
	bytes int64
	small bool          // it has room of the reserve
	in    chan struct{} // closed when it has room
}

func newBudget(node *incoming.Budget) *budget {
	b := &budget{node: node, users: map[string]int64{}, conns: map[*countedConn]int64{}, waits: map[*countedConn]int{}}
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
func (b *budget) acquire(ctx context.Context, conn *countedConn, user string, bytes int64) (release func(), err error) {
	a := &asked{conn: conn, user: user, bytes: bytes, in: make(chan struct{})}
	b.mu.Lock()
	at := b.wait.PushBack(a)
	b.node.Wait(1)
	b.waits[conn]++
	b.serve()
	if !a.isIn() {
		b.waited.Add(1)
	}
	if over := b.tooMany(conn); over != nil && !a.isIn() {
		b.drop(at)
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

// tooMany tells whether more messages wait than may, of a connection or in all. The caller holds mu.
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

// serve lets those in that have room, the one that waits for the longest time first. The caller holds mu.
func (b *budget) serve() {
	fits := func(used, bytes, most int64) bool { return used == 0 || used+bytes <= most }
	most, full := b.node.Bytes(), false
	for at := b.wait.Front(); at != nil; {
		next := at.Next()
		a, _ := at.Value.(*asked)
		if fits(b.users[a.user], a.bytes, most/receiveUserShare) && fits(b.conns[a.conn], a.bytes, most/receiveConnShare) {
			full = full || b.used > 0 && !b.node.Take(a.bytes) // who comes later does not overtake it
			switch {
			case !full && b.used > 0: // it was taken
			case !full:
				b.node.Add(a.bytes) // one of gRPC always has room
			case a.bytes <= most/smallShare && b.small+a.bytes <= most/reserveShare:
				b.node.Add(a.bytes)
				b.small += a.bytes
				a.small = true
			default:
				at = next
				continue
			}
			b.used += a.bytes
			b.users[a.user] += a.bytes
			b.conns[a.conn] += a.bytes
			b.drop(at)
			close(a.in)
		}
		at = next
	}
}

// figures returns the bytes that are being received, and the messages that wait for room.
func (b *budget) figures() (bytes int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.wait.Len()
}
