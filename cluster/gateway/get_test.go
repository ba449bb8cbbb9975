package gateway

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// got is the result of a Get.
type got struct {
	delivery *traffic.Delivery
	token    ConsumerToken
	err      error
}

// get begins a Get; its command waits for the leader when get returns.
func (l *leader) get(ctx context.Context, q *Queue) <-chan got {
	done := make(chan got, 1)
	go func() {
		d, t, _, err := q.Get(ctx, false)
		done <- got{d, t, err}
	}()
	synctest.Wait()
	return done
}

// take takes a message with Get.
func (l *leader) take(q *Queue) ConsumerToken {
	l.t.Helper()
	done := l.get(l.t.Context(), q)
	l.applyAll()
	g := <-done
	if g.err != nil || g.delivery == nil {
		l.t.Fatal(g.delivery, g.err)
	}
	return g.token
}

// settle settles a message that was taken with Get.
func (l *leader) settle(q *Queue, t ConsumerToken) error {
	done := make(chan error, 1)
	go func() { done <- q.g.DecideToken(l.t.Context(), t, Decision{Kind: Ack}) }()
	synctest.Wait()
	l.applyAll()
	return <-done
}

// applyAll applies what was submitted, and what follows from that.
func (l *leader) applyAll() {
	for synctest.Wait(); len(l.submitted) > 0; synctest.Wait() {
		l.apply(<-l.submitted)
	}
}

// lose loses the answer to a command, which is applied if it takes effect.
func (l *leader) lose(s submitted, takesEffect bool) {
	done := s.done
	s.done = func(quorumq.Reply, error) {}
	if takesEffect {
		l.apply(s)
	}
	done(quorumq.Reply{}, raftfsm.ErrUnknownOutcome)
}

// counts checks how many messages are ready and unacked, and how many sessions there are.
func (l *leader) counts(when string, ready, unacked uint64, sessions int) {
	l.t.Helper()
	if o := l.queue.Overview(); o.Ready != ready || o.Unsettled != unacked || o.Sessions != sessions {
		l.t.Errorf("%s: %d ready, %d unacked, %d sessions, want %d, %d, %d", when, o.Ready, o.Unsettled, o.Sessions, ready, unacked, sessions)
	}
}

// ledWith is ledQueue with messages in the queue.
func ledWith(t *testing.T, messages int) (*Queue, *leader) {
	t.Helper()
	q, l := ledQueue(t)
	for range messages {
		l.publish(q, func(error) {})
		l.applyAll()
	}
	return q, l
}

// DEL-5: a client that leaves before the answer takes nothing back that others hold. What it would have got returns.
func TestGetThatIsLeft(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledWith(t, 2)
		held := l.take(q)
		ctx, leave := context.WithCancel(t.Context())
		left := l.get(ctx, q)
		leave()
		if g := <-left; !errors.Is(g.err, context.Canceled) {
			t.Errorf("a get that is left: %v", g.err)
		}
		l.counts("left", 1, 1, 1)
		l.applyAll()
		l.counts("answered", 1, 1, 1)
		if err := l.settle(q, held); err != nil {
			t.Errorf("the other client: %v", err)
		}
		l.counts("settled", 1, 0, 1)
		if o := l.queue.Overview(); o.ReturnedTotal != 1 || o.ReturnedFailed != 0 {
			t.Errorf("%d returned, %d of them failed", o.ReturnedTotal, o.ReturnedFailed)
		}
	})
}

// A client that leaves just when the answer comes does not keep the message either.
func TestGetThatIsLeftWithAnswer(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledWith(t, 1)
		ctx, leave := context.WithCancel(t.Context())
		left := l.get(ctx, q)
		s := <-l.submitted
		leave()
		l.apply(s)
		if g := <-left; !errors.Is(g.err, context.Canceled) {
			t.Errorf("a get that is left: %v", g.err)
		}
		l.applyAll()
		l.counts("left", 1, 0, 1)
	})
}

// A Get that was not sent when its client leaves is never sent.
func TestGetIsWithdrawn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, l := ledWith(t, 1)
		l.away.Store(true)
		q.led("")
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		left := l.get(ctx, q)
		leave()
		if g := <-left; !errors.Is(g.err, context.Canceled) {
			t.Errorf("a get that is left: %v", g.err)
		}
		l.away.Store(false)
		q.led("a")
		time.Sleep(time.Second)
		if n := len(l.submitted); n > 0 {
			t.Errorf("%d commands are sent", n)
		}
	})
}

// A lost answer returns what it may have assigned, and nothing that clients hold (DEL-5).
func TestGetWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for _, takesEffect := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			q, l := ledWith(t, 3)
			first, second := l.take(q), l.take(q)
			asks := l.get(t.Context(), q)
			l.lose(<-l.submitted, takesEffect)
			time.Sleep(time.Second)
			l.applyAll()
			g := <-asks
			if g.err != nil || g.delivery == nil {
				t.Fatal(g.delivery, g.err)
			}
			if redelivered := g.delivery.AcquiredCount > 0; redelivered != takesEffect {
				t.Errorf("redelivered %v, want %v", redelivered, takesEffect)
			}
			l.counts("asked again", 0, 3, 2)
			for _, held := range []ConsumerToken{second, first, g.token} {
				if err := l.settle(q, held); err != nil {
					t.Error(err)
				}
			}
			l.counts("settled", 0, 0, 1) // the doubtful session is closed
		})
	}
}

// A Get that is answered after another one of its session was lost keeps its message.
func TestGetBesideALostOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, l := ledWith(t, 2)
		first, second := l.get(t.Context(), q), l.get(t.Context(), q)
		lost, answered := <-l.submitted, <-l.submitted
		l.lose(lost, true)
		synctest.Wait()
		l.apply(answered)
		time.Sleep(time.Second)
		l.applyAll()
		if g := <-first; g.err != nil || g.delivery != nil { // what the lost answer took is not back yet
			t.Error(g.delivery, g.err)
		}
		g := <-second
		if g.err != nil || g.delivery == nil || g.delivery.AcquiredCount > 0 {
			t.Fatal(g.delivery, g.err)
		}
		l.counts("swept", 1, 1, 1)
		if err := l.settle(q, g.token); err != nil {
			t.Error(err)
		}
		l.counts("settled", 1, 0, 0)
	})
}

// A change of leader does not take a second message for a Get whose first try still may take one.
func TestGetIsSentOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, l := ledWith(t, 2)
		asks := l.get(t.Context(), q)
		s := <-l.submitted
		q.disconnected("a") // as when this node's disk hangs
		time.Sleep(time.Second)
		if n := len(l.submitted); n > 0 {
			t.Fatalf("it is sent %d more times", n)
		}
		s.done(quorumq.Reply{}, &raftfsm.NotLeaderError{Group: q.uid.Group()}) // it is in no log
		time.Sleep(time.Second)
		l.applyAll()
		if g := <-asks; g.err != nil || g.delivery == nil || g.delivery.AcquiredCount > 0 {
			t.Error(g.delivery, g.err)
		}
		l.counts("taken", 1, 1, 1)
	})
}

// DEL-6: this node knows whether an earlier attempt of its own has settled a message, or the hold has ended.
func TestSettledByLostAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, l := ledWith(t, 2)
		for _, row := range []struct {
			takesEffect, unknown bool
			want                 error
		}{
			{takesEffect: true, unknown: true, want: traffic.ErrNotHeld},
			{takesEffect: false},
		} {
			held := l.take(q)
			done := make(chan error, 1)
			go func() { done <- q.g.DecideToken(t.Context(), held, Decision{Kind: Ack}) }()
			synctest.Wait()
			if q.g.HoldEnded(held) {
				t.Error("the hold has ended before it is settled")
			}
			l.lose(<-l.submitted, row.takesEffect)
			time.Sleep(time.Second)
			l.applyAll()
			err := <-done
			if !errors.Is(err, row.want) || errors.Is(err, traffic.ErrUnknownOutcome) != row.unknown {
				t.Errorf("an attempt whose answer was lost, in force %v: %v", row.takesEffect, err)
			}
			if !q.g.HoldEnded(held) {
				t.Error("a hold outlives its settlement")
			}
			if err := l.settle(q, held); !errors.Is(err, traffic.ErrNotHeld) || errors.Is(err, traffic.ErrUnknownOutcome) {
				t.Errorf("settled again: %v", err)
			}
		}
	})
}

// RE-5: a Get whose leaders fail one after the other ends when a command without a leader does.
func TestGetEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, l := ledWith(t, 1)
		asks := l.get(t.Context(), q)
		const fails = 40 * time.Second
		time.Sleep(fails)
		l.lose(<-l.submitted, true)
		time.Sleep(q.g.cfg.CommandTimeout - fails - time.Second)
		select {
		case g := <-asks:
			t.Fatalf("it ends early, with %v", g.err)
		default:
		}
		time.Sleep(2 * time.Second)
		select {
		case g := <-asks:
			if !errors.Is(g.err, traffic.ErrUnavailable) || errors.Is(g.err, traffic.ErrUnknownOutcome) {
				t.Errorf("it ends with %v", g.err)
			}
		default:
			t.Error("it goes on")
		}
		l.applyAll()
		l.counts("given up", 1, 0, 0)
	})
}

// G4: what the queue refuses to carry out is not settled, whatever the reason.
func TestDecisionThatIsRefused(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledWith(t, 1)
		held := l.take(q)
		done := make(chan error, 1)
		go func() { done <- q.g.DecideToken(t.Context(), held, Decision{Kind: Ack}) }()
		synctest.Wait()
		(<-l.submitted).done(quorumq.Reply{Code: quorumq.CodeMalformed}, nil)
		if err := <-done; err == nil {
			t.Error("it counts as settled")
		}
	})
}
