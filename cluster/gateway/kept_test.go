package gateway

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// lossyClient is the client of a consumer with auto-ack. Of its six messages, the second and the fifth were lost on their
// way: it has the first, and the gateway keeps the others and asks for what is missing.
type lossyClient struct {
	c     *Consumer
	got   []string                          // what it was called with, in order
	looks []look                            // at each call of Deliver
	asked chan func(traffic.Holding, error) // answers the resume
}

// look is with how many deliveries Deliver was called, and whether some were pending still.
type look struct {
	deliveries int
	pending    bool
}

func newLossyClient(t *testing.T) *lossyClient {
	t.Helper()
	q, l := ledQueue(t)
	x := &lossyClient{asked: make(chan func(traffic.Holding, error), 1)}
	l.held = func(_ quorumq.MsgID, done func(traffic.Holding, error)) { x.asked <- done }
	x.c = l.consumeWith(q, ConsumerConfig{
		AutoAck: true,
		Deliver: func(ds []traffic.Delivery) {
			x.looks = append(x.looks, look{len(ds), x.c.HasPending()})
			for i := range ds {
				x.got = append(x.got, fmt.Sprintf("delivery %d", ds[i].MsgID))
			}
		},
		Skipped: func(n uint64, upTo quorumq.MsgID) { x.got = append(x.got, fmt.Sprintf("%d skipped up to %d", n, upTo)) },
		Ended:   func(error) { x.got = append(x.got, "the end") },
	})
	for range 6 {
		l.publish(q, func(error) {})
		l.applyAll()
	}
	for _, lost := range []int{1, 4} {
		l.assigned[lost].Consumer.Session = 0
	}
	q.g.Deliver(q.uid, l.assigned[:4])
	q.g.Deliver(q.uid, l.assigned[4:])
	if !x.c.HasPending() {
		t.Error("nothing is pending while deliveries are missing")
	}
	return x
}

// gets compares what the client was called with.
func (x *lossyClient) gets(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(x.got, want) || x.c.HasPending() {
		t.Errorf("the client gets %q, want %q; more is pending: %v", x.got, want, x.c.HasPending())
	}
}

// DEL-4: with auto-ack nothing is lost besides what was lost on its way. What comes behind that is kept until the queue has
// answered, because the queue no longer has it.
func TestKeptUntilTheAnswer(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		x := newLossyClient(t)
		(<-x.asked)(traffic.Holding{Last: 6}, nil)
		synctest.Wait()
		x.gets(t, "delivery 1", "delivery 3", "delivery 4", "delivery 6", "2 skipped up to 6")
	})
}

// DEL-4, CO-3: the same holds when the queue no longer knows the consumer, as after a cancel: with auto-ack it holds
// nothing then.
func TestKeptUntilTheEnd(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		x := newLossyClient(t)
		(<-x.asked)(traffic.Holding{}, fmt.Errorf("resume: %w", traffic.ErrConsumerGone))
		synctest.Wait()
		x.gets(t, "delivery 1", "delivery 3", "delivery 4", "delivery 6", "the end")
	})
}

// ends are the ways in which a queue, or this node's end of it, leaves its consumers.
func ends() map[string]func(q *Queue) {
	return map[string]func(q *Queue){
		"the queue is deleted":       func(q *Queue) { q.g.QueueGone(q.uid) },
		"its deletion is decided":    func(q *Queue) { q.g.QueueDrainDeletes(q.uid) },
		"it is decided, and is done": func(q *Queue) { q.g.QueueDrainDeletes(q.uid); q.g.QueueGone(q.uid) },
		"the node stops":             func(q *Queue) { q.g.Close() },
	}
}

// DEL-4: the same holds when the queue ends.
func TestKeptUntilTheQueueEnds(t *testing.T) {
	t.Parallel()
	for name, end := range ends() {
		withoutWaiting(t, func(t *testing.T) {
			x := newLossyClient(t)
			<-x.asked
			end(x.c.q)
			synctest.Wait()
			t.Log(name)
			x.gets(t, "delivery 1", "delivery 3", "delivery 4", "delivery 6", "the end")
		})
	}
}

// DEL-4: with auto-ack a delivery that has arrived is not lost when the queue ends before the client is called with it, and
// the end is the last call.
func TestArrivedBeforeTheQueueEnds(t *testing.T) {
	t.Parallel()
	for name, end := range ends() {
		withoutWaiting(t, func(t *testing.T) {
			q, l := ledQueue(t)
			var got []string
			l.consumeWith(q, ConsumerConfig{
				AutoAck: true,
				Deliver: func(ds []traffic.Delivery) {
					if len(got) == 0 { // while the client is called
						q.g.Deliver(q.uid, l.assigned[1:])
						end(q)
					}
					for i := range ds {
						got = append(got, fmt.Sprintf("delivery %d", ds[i].MsgID))
					}
				},
				Ended: func(error) { got = append(got, "the end") },
			})
			for range 2 {
				l.publish(q, func(error) {})
				l.applyAll()
			}
			q.g.Deliver(q.uid, l.assigned[:1])
			synctest.Wait()
			if want := []string{"delivery 1", "delivery 2", "the end"}; !slices.Equal(got, want) {
				t.Errorf("%s: the client gets %q, want %q", name, got, want)
			}
		})
	}
}

// AM-8, AM-13: as long as the client does not have what was kept, it is pending: a client that looked in between would take
// what has arrived for everything. Then the client is called again, so that it looks again.
func TestPendingUntilDelivered(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]error{"the queue answers": nil, "the queue does not know the consumer": traffic.ErrConsumerGone} {
		withoutWaiting(t, func(t *testing.T) {
			x := newLossyClient(t)
			(<-x.asked)(traffic.Holding{Last: 6}, gone)
			synctest.Wait()
			if want := []look{{1, true}, {3, true}, {0, false}}; !slices.Equal(x.looks, want) {
				t.Errorf("%s: the client looked at %v, want %v", name, x.looks, want)
			}
		})
	}
}

// DEL-4: deliveries with auto-ack that overtake the answer to the registration come, too, if their leader fails before it
// answers, so that the registration is repeated.
func TestEarlyOfRepeatedRegistration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const messages = 4
		q, l := ledWith(t, messages)
		l.held = func(_ quorumq.MsgID, done func(traffic.Holding, error)) { done(traffic.Holding{Last: messages}, nil) }
		var got []string
		opened := make(chan error, 1)
		go func() {
			_, err := q.Consume(t.Context(), ConsumerConfig{
				AutoAck: true,
				Deliver: func(ds []traffic.Delivery) {
					for i := range ds {
						got = append(got, fmt.Sprintf("delivery %d", ds[i].MsgID))
					}
				},
				Skipped: func(n uint64, upTo quorumq.MsgID) { got = append(got, fmt.Sprintf("%d skipped up to %d", n, upTo)) },
			})
			opened <- err
		}()
		l.lose(<-l.submitted, true)
		if len(l.assigned) != messages {
			t.Fatalf("%d messages are assigned, want %d", len(l.assigned), messages)
		}
		l.assigned[1].Consumer.Session = 0 // it is lost
		q.g.Deliver(q.uid, l.assigned)
		l.apply(<-l.submitted)
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if want := []string{"delivery 1", "delivery 3", "delivery 4", "1 skipped up to 4"}; !slices.Equal(got, want) {
			t.Errorf("the client gets %q, want %q", got, want)
		}
	})
}

// AM-8, RE-5: a client that has cancelled its consumer waits for what is pending no longer than for a leader. Then it gets
// what was kept, and the end. A consumer that is not cancelled continues, and one of which nothing is pending: its
// client may still settle what it has.
func TestPendingWithoutLeader(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name                string
		cancels, lost, ends bool
	}{
		{name: "cancelled", cancels: true, lost: true, ends: true},
		{name: "open", lost: true},
		{name: "nothing is pending", cancels: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, l := ledQueue(t)
				l.held = func(quorumq.MsgID, func(traffic.Holding, error)) {} // it is never answered
				var mu sync.Mutex                                             // guards got and why
				var got []quorumq.MsgID
				var why error
				c := l.consumeWith(q, ConsumerConfig{
					AutoAck: row.lost,
					Ended: func(err error) {
						mu.Lock()
						defer mu.Unlock()
						why = err
					},
					Deliver: func(ds []traffic.Delivery) {
						mu.Lock()
						defer mu.Unlock()
						for i := range ds {
							got = append(got, ds[i].MsgID)
						}
					},
				})
				for range 2 {
					l.publish(q, func(error) {})
					l.applyAll()
				}
				if row.lost {
					q.g.Deliver(q.uid, slices.Clone(l.assigned[1:]))
				} else {
					q.g.Deliver(q.uid, slices.Clone(l.assigned))
				}
				if row.cancels {
					l.cancel(c)
				}
				l.away.Store(true)
				q.led("")
				looks := func(when string, pending, ended bool, want ...quorumq.MsgID) {
					t.Helper()
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					if c.HasPending() != pending || errors.Is(why, traffic.ErrUndelivered) != ended || !slices.Equal(got, want) {
						t.Errorf("%s: pending %v, ended with %v, got %d", when, c.HasPending(), why, got)
					}
				}
				before, after := []quorumq.MsgID{1, 2}, []quorumq.MsgID{1, 2}
				if row.lost {
					before, after = nil, nil
				}
				if row.ends {
					after = []quorumq.MsgID{2}
				}
				time.Sleep(q.g.cfg.CommandTimeout - time.Second)
				looks("before the time is over", row.lost, false, before...)
				time.Sleep(2 * time.Second)
				looks("when the time is over", row.lost && !row.ends, row.ends, after...)
			})
		})
	}
}

// While it has no room for what is pending, a client that has cancelled does not wait for a leader.
func TestPendingWithoutRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, l := ledQueue(t)
		l.held = func(after quorumq.MsgID, done func(traffic.Holding, error)) {
			done(traffic.Holding{Deliveries: slices.Clone(l.assigned[after:]), Last: 3}, nil)
		}
		buffer := NewBuffer(1, &BufferStats{})
		var why error
		got := 0
		c := l.consumeWith(q, ConsumerConfig{
			Prefetch: 10, Buffer: buffer, Ended: func(err error) { why = err },
			Deliver: func(ds []traffic.Delivery) { got += len(ds) },
		})
		for range 3 {
			l.publish(q, func(error) {})
			l.applyAll()
		}
		q.g.Deliver(q.uid, slices.Clone(l.assigned))
		l.cancel(c)
		for want := 1; want <= 3; want++ {
			time.Sleep(2 * q.g.cfg.CommandTimeout)
			synctest.Wait()
			if got != want || why != nil || c.HasPending() != (want < 3) {
				t.Fatalf("got %d deliveries, want %d; pending %v, ended with %v", got, want, c.HasPending(), why)
			}
			buffer.Release(l.assigned[want-1].Size()) // the client has read it
			synctest.Wait()
		}
	})
}

// cancel cancels a consumer, and has its queue carry that out.
func (l *leader) cancel(c *Consumer) {
	l.t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Cancel(l.t.Context(), false) }()
	l.applyAll()
	if err := <-done; err != nil {
		l.t.Fatal(err)
	}
}
