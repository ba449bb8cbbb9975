package gateway

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// DEL-5: what is not settled in time returns, with one command; what was settled no longer costs anything.
func TestHoldsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const settled, late = 100, 3
		q, l := ledWith(t, settled+late)
		for range settled {
			if err := l.settle(q, l.take(q)); err != nil {
				t.Fatal(err)
			}
		}
		q.mu.Lock()
		if s := q.gets.sessions[0]; len(q.gets.sessions) != 1 || len(s.held)+cap(s.deadlines) > 0 {
			t.Errorf("%d sessions; the first keeps %d messages and %d deadlines", len(q.gets.sessions), len(s.held), cap(s.deadlines))
		}
		q.mu.Unlock()
		var held [late]ConsumerToken
		for i := range held {
			held[i] = l.take(q)
		}
		time.Sleep(GetAckTimeout - time.Second)
		if n := len(l.submitted); n > 0 {
			t.Errorf("%d commands before the time is over", n)
		}
		time.Sleep(2 * time.Second)
		if n := len(l.submitted); n != 1 {
			t.Errorf("%d commands when the time is over, want 1", n)
		}
		l.applyAll()
		l.counts("the time is over", late, 0, 1)
		if o := l.queue.Overview(); o.ReturnedFailed > 0 {
			t.Errorf("%d returned as failed", o.ReturnedFailed)
		}
		for _, h := range held {
			if !q.g.HoldEnded(h) {
				t.Errorf("message %d is held without end", h.MsgID)
			}
		}
	})
}

// A hold that is settled does not delay or hasten the end of others, in whatever order clients settle.
func TestHoldsInAnyOrder(t *testing.T) {
	t.Parallel()
	s := &getSession{}
	begin := time.Now()
	for m := quorumq.MsgID(1); m <= 10; m++ {
		s.hold(m, begin.Add(time.Duration(m)*time.Second))
	}
	for _, m := range []quorumq.MsgID{1, 10, 4, 2, 5, 9} {
		if !s.drop(m) || s.drop(m) {
			t.Errorf("message %d is dropped otherwise than once", m)
		}
	}
	if got := s.next(); !got.Equal(begin.Add(3 * time.Second)) {
		t.Errorf("the first ends after %v", got.Sub(begin))
	}
	if rs := s.others(); len(rs) != 3 || rs[1] != (quorumq.MsgIDRange{First: 4, Last: 5}) || rs[2].First != 9 || rs[2].Last+1 != 0 {
		t.Errorf("%v are not held", rs)
	}
	if late := s.expire(begin.Add(7 * time.Second)); len(late) != 3 || late[0] != 3 || late[2] != 7 {
		t.Errorf("%v end after 7 s", late)
	}
	if len(s.held) != 1 || !s.drop(8) || !s.next().IsZero() {
		t.Errorf("%v are held", s.held)
	}
}

// DEL-8: what clients leave behind returns as failed, with one command for each session, however many messages it is.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		const messages = 50
		q, l := ledWith(t, messages)
		var held []ConsumerToken
		for range messages {
			held = append([]ConsumerToken{l.take(q)}, held...)
		}
		give := func() <-chan error {
			done := make(chan error, 1)
			go func() { done <- q.g.GiveBack(t.Context(), held) }()
			synctest.Wait()
			return done
		}
		done := give()
		if n := len(l.submitted); n != 1 {
			t.Errorf("%d commands, want 1", n)
		}
		l.applyAll()
		if err := <-done; err != nil {
			t.Error(err)
		}
		l.counts("given back", messages, 0, 1)
		if o := l.queue.Overview(); o.ReturnedFailed != messages {
			t.Errorf("%d returned as failed", o.ReturnedFailed)
		}
		q.mu.Lock()
		if n := len(q.gets.sessions[0].held); n > 0 {
			t.Errorf("%d are held still", n)
		}
		q.mu.Unlock()
		done = give()
		l.applyAll()
		if err := <-done; !errors.Is(err, traffic.ErrNotHeld) {
			t.Errorf("given back twice: %v", err)
		}
		for i := len(held); i <= maxReturned; i++ {
			held = append(held, ConsumerToken{Queue: q.uid, Consumer: held[0].Consumer, MsgID: quorumq.MsgID(1_000_000 + i)})
		}
		done = give()
		if n := len(l.submitted); n != 2 {
			t.Errorf("%d commands for %d messages, want 2", n, len(held))
		}
		l.applyAll()
		if err := <-done; !errors.Is(err, traffic.ErrNotHeld) {
			t.Errorf("what was never taken is given back: %v", err)
		}
	})
}
