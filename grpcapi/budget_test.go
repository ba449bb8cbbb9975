package grpcapi

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/incoming"
)

// A connection and a user each have their share. A smaller message does not overtake the one that has waited longest,
// and a message that is alone always has room.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(incoming.New(80), windowBytes) // 40 for a user, 20 for a connection
		first, second, third := &countedConn{}, &countedConn{}, &countedConn{}
		type ask struct {
			release func()
			err     error
			done    bool
		}
		begin := func(ctx context.Context, conn *countedConn, user string, bytes int64) *ask {
			a := &ask{}
			go func() {
				a.release, a.err = b.acquire(ctx, &asked{conn: conn, user: user, bytes: bytes})
				a.done = true
			}()
			synctest.Wait()
			return a
		}
		is := func(what string, used int64, waiting int) {
			t.Helper()
			synctest.Wait()
			if u, w := b.figures(); u != used || w != waiting {
				t.Errorf("%s: %d bytes, %d wait; want %d, %d", what, u, w, used, waiting)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		large := begin(ctx, first, "u", 30)
		is("a message alone", 30, 0)
		more := begin(ctx, first, "u", 5)
		is("its connection has more than its share", 30, 1)
		other := begin(ctx, second, "u", 10)
		is("another one of the user goes on", 40, 1)
		full := begin(ctx, third, "u", 5)
		is("until the user has its share", 40, 2)
		unauthenticated := begin(ctx, &countedConn{}, "v", 30)
		is("another user goes on", 70, 2)
		huge := begin(ctx, &countedConn{}, "w", 20)
		small := begin(ctx, &countedConn{}, "x", 6)
		is("smaller ones do not overtake", 70, 4)
		tiny, tinier := begin(ctx, &countedConn{}, "y", 5), begin(ctx, &countedConn{}, "y", 5)
		is("but for small ones, which have a reserve", 80, 4)
		late := begin(ctx, &countedConn{}, "z", 1)
		is("until that is taken", 80, 5)
		tiny.release()
		is("it is small ones' again", 76, 4)
		tinier.release()
		large.release()
		is("those that have room come in", 77, 0)
		for _, a := range []*ask{more, other, full, unauthenticated, huge, small, late} {
			if a.err != nil || !a.done {
				t.Fatalf("%+v", a)
			}
			a.release()
		}
		is("all have come", 0, 0)

		one, way := begin(ctx, first, "u", 1000), begin(ctx, second, "v", 10)
		is("one is larger than everything", 1000, 1)
		cancel()
		is("who waits goes", 1000, 0)
		if !errors.Is(way.err, context.Canceled) {
			t.Error(way.err)
		}
		one.release()
		is("the end", 0, 0)
		if len(b.users)+len(b.conns) > 0 {
			t.Errorf("%v and %v are left", b.users, b.conns)
		}
	})
}

// Only a limited number of messages may wait, per connection and in all, because the part of each that has come is
// kept.
func TestFewWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(incoming.New(80), windowBytes)
		ctx, cancel := context.WithCancel(t.Context())
		hog, err := b.acquire(ctx, &asked{conn: &countedConn{}, user: "hog", bytes: 80})
		if err != nil {
			t.Fatal(err)
		}
		var refused atomic.Int64
		ask := func(conn *countedConn, times int) {
			for range times {
				go func() {
					release, err := b.acquire(ctx, &asked{conn: conn, user: "u", bytes: 6})
					if e, is := errors.AsType[*failure.Error](err); is && e.Class == failure.ResourceExhausted && e.RetryAfter > 0 {
						refused.Add(1)
					}
					if err == nil {
						release()
					}
				}()
			}
			synctest.Wait()
		}
		const each = leastWaiting / receiveConnShare
		first := &countedConn{}
		for i, step := range []struct {
			conn           *countedConn
			asks           int
			waits, refused int
		}{
			{first, each, each, 0},
			{first, 5, each, 5},
			{&countedConn{}, each, 2 * each, 5},
			{&countedConn{}, each + 1, 3 * each, 6},
			{&countedConn{}, each, 4 * each, 6},
			{&countedConn{}, 2, 4 * each, 8},
		} {
			ask(step.conn, step.asks)
			if _, w := b.figures(); w != step.waits || int(refused.Load()) != step.refused {
				t.Errorf("step %d: %d wait, %d are refused; want %d, %d", i, w, refused.Load(), step.waits, step.refused)
			}
		}
		hog()
		synctest.Wait()
		if used, w := b.figures(); used != 0 || w != 0 || len(b.waits) != 0 {
			t.Errorf("%d bytes, %d wait, of %d connections", used, w, len(b.waits))
		}
		cancel()
	})
}

// Users whose messages a quota holds back come after the others, and the lack of room of the others is visible.
func TestHeldBackComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(incoming.New(80), windowBytes) // 40 for a user, 20 for a connection
		var order []string
		let := map[string]func(){}
		ask := func(user string) *asked {
			a := &asked{conn: &countedConn{}, user: user, bytes: 20, keeps: true}
			go func() {
				release, err := b.acquire(t.Context(), a)
				if err != nil {
					t.Error(err)
				}
				order = append(order, user)
				let[user] = release
			}()
			synctest.Wait()
			return a
		}
		var held []func()
		for _, user := range []string{"a", "b", "a", "b"} { // all there is
			k := &kept{b: b}
			k.keep(ask(user), let[user])
			held = append(held, k.letGo)
		}
		ask("a")
		if b.crowded() {
			t.Error("who has its share is in others' way")
		}
		ask("c")
		if !b.crowded() {
			t.Error("nobody sees that another one waits")
		}
		held[0]()
		synctest.Wait()
		if b.crowded() {
			t.Error("crowded when all others have room")
		}
		held[2]()
		synctest.Wait()
		if got := order[4:]; len(got) != 2 || got[0] != "c" || got[1] != "a" {
			t.Errorf("%v came in", got)
		}
		held[1]()
		held[3]()
		let["a"]()
		let["c"]()
		if used, waiting := b.figures(); used != 0 || waiting != 0 || len(b.held.users)+len(b.held.conns) != 0 || b.node.Used() != 0 {
			t.Errorf("%d bytes, %d wait, held back %v at the end", used, waiting, b.held)
		}
	})
}

// A message that no quota holds back does not wait for held messages in the share of its user or connection. It waits
// only for the node's room, and for other messages.
func TestHeldBackArePassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(incoming.New(80), windowBytes) // 40 for a user, 20 for a connection
		conn := &countedConn{}
		in := 0
		ask := func(bytes int64, keeps bool) (*asked, func()) {
			var release func()
			a := &asked{conn: conn, user: "u", bytes: bytes, keeps: keeps}
			go func() {
				let, err := b.acquire(t.Context(), a)
				if err != nil {
					t.Error(err)
				}
				in++
				release = let
			}()
			synctest.Wait()
			return a, func() { release() }
		}
		k := &kept{b: b}
		a, publish := ask(20, true)
		_, early := ask(10, false)
		if in != 1 {
			t.Fatal("a message that is not held back yet is passed")
		}
		k.keep(a, publish)
		synctest.Wait()
		_, second := ask(10, false)
		if in != 3 {
			t.Fatalf("%d of a user's messages passed those that are held back", in-1)
		}
		_, third := ask(10, false)
		_, fourth := ask(10, true)
		if in != 3 {
			t.Fatal("more came in than a connection may have")
		}
		early()
		synctest.Wait()
		if in != 4 {
			t.Fatal("the next one waits")
		}
		k.letGo()
		second()
		third()
		synctest.Wait()
		fourth()
		if used, waiting := b.figures(); used != 0 || waiting != 0 || len(b.held.users)+len(b.held.conns) != 0 {
			t.Errorf("%d bytes, %d wait, held back %v at the end", used, waiting, b.held)
		}
	})
}
