package gateway

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// leader leads the only queue of node "a", without Raft. It applies and answers a command only when
// the test decides so, on the test's goroutine.
type leader struct {
	Members
	t         *testing.T
	queue     *quorumq.Queue
	decoder   quorumq.Decoder
	index     uint64
	submitted chan submitted
	assigned  []traffic.Delivery // by commands that were applied
	resumed   chan quorumq.MsgID // after which a consumer asked for its deliveries
	away      atomic.Bool        // there is no leader
	// held, if set, gets what a consumer asks for, in place of resumed.
	held func(after quorumq.MsgID, done func(traffic.Holding, error))
}

type submitted struct {
	command raftfsm.Command
	done    func(quorumq.Reply, error)
}

func (l *leader) Submit(_ id.QueueUID, c raftfsm.Command, done func(quorumq.Reply, error)) {
	l.submitted <- submitted{c, done}
}

func (l *leader) Held(_ id.QueueUID, _ quorumq.ConsumerKey, after quorumq.MsgID, _ int64, done func(traffic.Holding, error)) {
	if l.held != nil {
		l.held(after, done)
		return
	}
	l.resumed <- after
}

func (l *leader) Load(_ id.QueueUID, d quorumq.Delivery, done func(traffic.Delivery, error)) {
	done(traffic.Delivery{Delivery: d, Message: []byte("body")}, nil)
}

func (l *leader) Flush(id.QueueUID) {}

func (l *leader) Rouse(id.QueueUID) {}

func (l *leader) LeaderOf(id.QueueUID) (id.NodeID, bool) {
	if l.away.Load() {
		return "", true
	}
	return "a", true
}

// apply applies a command that was submitted.
func (l *leader) apply(s submitted) {
	c, err := l.decoder.Decode(s.command.Header)
	if err != nil {
		l.t.Error(err)
	}
	l.index++
	r, e := l.queue.Apply(quorumq.Meta{Index: l.index}, c)
	for _, d := range e.Deliver {
		l.assigned = append(l.assigned, traffic.Delivery{Delivery: d, Message: []byte("body")})
	}
	s.done(r, nil)
}

// ledQueue returns node "a"'s end of a queue that the leader leads.
func ledQueue(t *testing.T) (*Queue, *leader) {
	t.Helper()
	catalogue := catalog.New()
	for i, cmd := range []catalog.Command{
		&catalog.RegisterNode{ID: "a", Epoch: 1},
		&catalog.DeclareQueue{VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a"}, Leader: "a"},
	} {
		if err := catalogue.Apply(uint64(i)+1, 0, cmd).Err; err != nil {
			t.Fatal(err)
		}
	}
	views := metadata.NewViews(catalogue.View())
	r, _ := views.View().Queue("/", "q")
	l := &leader{t: t, queue: quorumq.New(r.UID, quorumq.DefaultConfig()), submitted: make(chan submitted, 1000), resumed: make(chan quorumq.MsgID, 1)}
	board := disk.NewBoard("a", "", MaxWaitingBytes, nil)
	g := New(Config{
		Node: "a", Epoch: 1, Views: views, Members: l, Disks: board, Rooms: &disk.Rooms{Board: board, View: views.View}, PublishWindow: 1000,
		CommandTimeout: time.Minute,
	})
	t.Cleanup(g.Close)
	q, err := g.Queue(r.UID)
	if err != nil {
		t.Fatal(err)
	}
	return q, l
}

func (l *leader) publish(q *Queue, done func(error)) {
	if err := q.Enqueue(l.t.Context(), quorumq.NewMessage{Size: 4, TTLMs: quorumq.Unlimited}, []byte("body"), done); err != nil {
		l.t.Error(err)
	}
}

// consume makes a consumer, and registers it with the leader.
func (l *leader) consume(q *Queue, deliver func(quorumq.MsgID)) *Consumer {
	return l.consumeWith(q, ConsumerConfig{Prefetch: 10, Ended: func(error) {}, Deliver: func(ds []traffic.Delivery) {
		for i := range ds {
			deliver(ds[i].MsgID)
		}
	}})
}

// consumeWith is consume with all settings.
func (l *leader) consumeWith(q *Queue, cfg ConsumerConfig) *Consumer {
	opened := make(chan *Consumer, 1)
	go func() {
		c, err := q.Consume(l.t.Context(), cfg)
		if err != nil {
			l.t.Error(err)
		}
		opened <- c
	}()
	l.apply(<-l.submitted)
	return <-opened
}

// A message that is sent while no other is on its way is with the leader when Enqueue returns, and
// is confirmed as soon as the leader has answered. No other goroutine is needed.
func TestPublishWithoutHandOver(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledQueue(t)
		for i := range 3 {
			confirmed := false
			l.publish(q, func(err error) { confirmed = err == nil })
			if n := len(l.submitted); n != 1 {
				t.Fatalf("message %d: the leader has %d commands when Enqueue returns", i, n)
			}
			l.apply(<-l.submitted)
			if !confirmed {
				t.Fatalf("message %d is not confirmed when the leader has answered", i)
			}
		}
	})
}

// The same holds for other commands.
func TestCommandWithoutHandOver(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledQueue(t)
		answered := false
		q.post(&op{header: quorumq.AppendCommand(nil, &quorumq.Purge{}), done: func(a opResult) { answered = a.err == nil }})
		if n := len(l.submitted); n != 1 {
			t.Fatalf("the leader has %d commands when it was posted", n)
		}
		l.apply(<-l.submitted)
		if !answered {
			t.Fatal("it is not answered when the leader has answered")
		}
	})
}

// withoutWaiting runs a test that fails if any part of it waits for time to pass. A part could wait
// for the queue's alarm, which sends everything in the end.
func withoutWaiting(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		test(t)
		if d := time.Since(began); d > 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// The client has a delivery when Deliver returns. If one before it was lost, the consumer requests
// that.
func TestDeliverWithoutHandOver(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledQueue(t)
		var got []quorumq.MsgID
		l.consume(q, func(m quorumq.MsgID) { got = append(got, m) })
		for range 3 {
			l.publish(q, func(error) {})
			l.apply(<-l.submitted)
		}
		q.g.Deliver(q.uid, l.assigned[:1])
		if len(got) != 1 || got[0] != 1 {
			t.Fatalf("delivered %v when Deliver returns, want the first", got)
		}
		q.g.Deliver(q.uid, l.assigned[2:])
		if after := <-l.resumed; after != 1 {
			t.Errorf("deliveries are asked for after %d, want 1", after)
		}
		if len(got) != 1 {
			t.Errorf("delivered %v past one that is lost", got)
		}
	})
}

// CO-3: what comes while the queue is at work is processed in the order in which it came. A client that cancels has its
// last delivery before the answer.
func TestAnswerBehindDeliveries(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledQueue(t)
		var got []quorumq.MsgID
		c := l.consume(q, func(m quorumq.MsgID) { got = append(got, m) })
		l.publish(q, func(error) { // the queue is at work while it confirms
			q.g.Deliver(q.uid, l.assigned)
			l.apply(<-l.submitted)
		})
		published := <-l.submitted
		before := -1
		q.post(&op{
			header: quorumq.AppendCommand(nil, &quorumq.Cancel{Consumer: c.key}), after: c,
			done: func(a opResult) {
				if before = len(got); a.err != nil || a.reply.Code != quorumq.CodeOK {
					t.Errorf("cancelled with code %d, %v", a.reply.Code, a.err)
				}
			},
		})
		l.apply(published)
		synctest.Wait()
		if before != 1 {
			t.Errorf("%d deliveries came before the answer, want 1", before)
		}
	})
}

// With auto-ack the answer to a resume has no messages, so deliveries that came before it must not be taken for repeats
// of what it leaves out.
func TestResumeBehindDeliveries(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledQueue(t)
		var got []quorumq.MsgID
		c := l.consumeWith(q, ConsumerConfig{AutoAck: true, Deliver: func(ds []traffic.Delivery) {
			for i := range ds {
				got = append(got, ds[i].MsgID)
			}
		}})
		resumed := make(chan func(traffic.Holding, error), 1)
		l.held = func(_ quorumq.MsgID, done func(traffic.Holding, error)) { resumed <- done }
		l.publish(q, func(error) { // the queue is at work while it confirms
			q.g.Deliver(q.uid, l.assigned)
			last, _ := l.queue.LastMsgID(c.key)
			(<-resumed)(traffic.Holding{Last: last}, nil)
		})
		q.g.Notice(q.uid, quorumq.Notice{Consumer: c.key, Kind: quorumq.NoticeLeader})
		synctest.Wait()
		l.apply(<-l.submitted)
		synctest.Wait()
		if len(got) != 1 || got[0] != 1 {
			t.Errorf("delivered %v, want the only message", got)
		}
	})
}

// DEL-4: with auto-ack, deliveries that were lost with a leader never come. Their client is notified, since the queue
// counts them in its credit.
func TestSkippedAreReported(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledQueue(t)
		var got []string
		c := l.consumeWith(q, ConsumerConfig{
			AutoAck: true,
			Deliver: func(ds []traffic.Delivery) { got = append(got, fmt.Sprintf("delivery %d", ds[0].MsgID)) },
			Skipped: func(n uint64, upTo quorumq.MsgID) { got = append(got, fmt.Sprintf("%d skipped up to %d", n, upTo)) },
		})
		l.held = func(_ quorumq.MsgID, done func(traffic.Holding, error)) {
			last, _ := l.queue.LastMsgID(c.key)
			done(traffic.Holding{Last: last}, nil)
		}
		for range 4 {
			l.publish(q, func(error) {})
			l.applyAll()
		}
		q.g.Deliver(q.uid, l.assigned[:1])
		for range 2 {
			q.g.Notice(q.uid, quorumq.Notice{Consumer: c.key, Kind: quorumq.NoticeLeader})
			synctest.Wait()
		}
		if want := []string{"delivery 1", "3 skipped up to 4"}; !slices.Equal(got, want) {
			t.Errorf("the client gets %q, want %q", got, want)
		}
	})
}

// G4: a flush returns only after the queue has answered for every decision before it.
func TestFlushWaitsForTheQueue(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledQueue(t)
		c := l.consume(q, func(quorumq.MsgID) {})
		l.publish(q, func(error) {})
		l.apply(<-l.submitted)
		q.g.Deliver(q.uid, l.assigned)
		if n := c.Decide(quorumq.MsgIDRange{First: 1, Last: 1}, Decision{Kind: Ack}); n != 1 {
			t.Fatalf("%d messages were decided about, want 1", n)
		}
		flushed := make(chan error, 1)
		go func() { flushed <- c.Flush(t.Context()) }()
		synctest.Wait()
		if len(flushed) > 0 {
			t.Error("what was decided is flushed before the queue has answered")
		}
		l.apply(<-l.submitted)
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		if n := l.queue.Overview().Unsettled; n != 0 {
			t.Errorf("the queue has %d unacked messages when the flush returns", n)
		}
	})
}

// A message that comes while others are on their way, or are being confirmed, reaches the leader as
// well.
func TestPublishBesideOthers(t *testing.T) {
	t.Parallel()
	withoutWaiting(t, func(t *testing.T) {
		q, l := ledQueue(t)
		confirmed := make(chan error, 3)
		l.publish(q, func(err error) {
			l.publish(q, func(err error) { confirmed <- err }) // while answers are handed out
			confirmed <- err
		})
		l.publish(q, func(err error) { confirmed <- err }) // behind the first
		for range 3 {
			l.apply(<-l.submitted)
			if err := <-confirmed; err != nil {
				t.Error(err)
			}
		}
	})
}

// PUB-6: each publisher's messages are confirmed once and in order, whichever goroutine brings the
// answers.
func TestConfirmsKeepOrder(t *testing.T) {
	t.Parallel()
	const publishers, each = 10, 1000
	q, l := ledQueue(t)
	var next [publishers]int
	var all, confirmed sync.WaitGroup
	for p := range publishers {
		confirmed.Add(each)
		all.Go(func() {
			for i := range each {
				l.publish(q, func(err error) {
					defer confirmed.Done()
					if err != nil || next[p] != i { // one at a time calls back: no lock guards next
						l.t.Error(fmt.Errorf("publisher %d: message %d confirmed where %d was due: %w", p, i, next[p], err))
					}
					next[p]++
				})
			}
		})
	}
	ended := make(chan struct{})
	all.Go(func() {
		for {
			select {
			case s := <-l.submitted:
				l.apply(s)
			case <-ended:
				return
			}
		}
	})
	confirmed.Wait()
	close(ended)
	all.Wait()
	if got := l.queue.Overview().Ready; got != publishers*each {
		t.Errorf("the queue has %d messages, want %d", got, publishers*each)
	}
}
