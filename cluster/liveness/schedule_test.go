package liveness

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// A step for who wakes the loop comes at once, then no sooner than four times what it took; looks come in time.
func TestSchedule(t *testing.T) {
	const ms = time.Millisecond
	start := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	k := schedule{tick: 50 * ms}
	k.looked(start, time.Second)
	if k.lookDue(at(999*ms)) || k.stepDue(at(999*ms)) || k.next() != at(time.Second) {
		t.Errorf("something is due early: %+v", k)
	}
	k.wake(at(100 * ms))
	if !k.stepDue(at(100 * ms)) {
		t.Error("the first step is not due at once")
	}
	k.stepped(at(100*ms), at(103*ms)) // it took 3 ms
	if k.next() != at(150*ms) || k.wait != 50*ms {
		t.Errorf("the next look is due at %v", k.next())
	}
	k.wake(at(110 * ms))
	if k.stepDue(at(114*ms)) || k.next() != at(115*ms) || !k.stepDue(at(115*ms)) {
		t.Errorf("the second step is due at %v", k.next())
	}
	k.stepped(at(115*ms), at(145*ms)) // it took 30 ms
	k.wake(at(146 * ms))
	if k.next() != at(150*ms) || !k.lookDue(at(150*ms)) {
		t.Errorf("the look was put off to %v", k.next())
	}
	k.looked(at(150*ms), 50*ms)
	if k.woken {
		t.Error("a look is no step for who woke the loop")
	}
	k.looked(at(200*ms), time.Second) // nothing is to be done
	k.wake(at(210 * ms))              // while a step would come too soon after that of 30 ms
	if k.stepDue(at(259*ms)) || k.next() != at(260*ms) || k.wait != time.Second {
		t.Errorf("woken from rest, the next look is due at %v", k.next())
	}
}

// silent is a transport whose peer has never answered, though its connection is up.
type silent struct{ since time.Time }

func (s silent) Silent(id.NodeID) (time.Duration, bool)      { return time.Since(s.since), true }
func (silent) Overdue(id.NodeID) time.Duration               { return 0 }
func (silent) Say()                                          {}
func (silent) Client(n id.NodeID) (nodev1.NodeClient, error) { panic("nobody asks " + n) }

// A peer that falls silent is found although groups want leaders all the time.
func TestSilentPeerFoundInCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		m, err := New(Config{Node: "a", Transport: silent{time.Now()}})
		if err != nil {
			t.Fatal(err)
		}
		m.core.peer("b").lost = false
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			m.Run(ctx)
		}()
		for began := time.Now(); m.Reaches("b"); {
			if time.Since(began) > time.Second {
				t.Error("a peer that has been silent for a second is not lost")
				break
			}
			m.RequestElection(firstGroup, "")
			time.Sleep(10 * time.Millisecond) // of the bubble: it passes when all others wait
		}
		stop()
		<-ended
	})
}
