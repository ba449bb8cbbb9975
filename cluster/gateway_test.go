package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// numbered publishes messages with the numbers 1, 2 ... through one gateway and counts
// the answers.
type numbered struct {
	node      *testNode
	queue     *gateway.Queue
	publisher byte
	sent      uint64
	confirmed atomic.Uint64
	failed    atomic.Pointer[error]
}

func (n *testNode) numbered(t *testing.T, q id.QueueUID, publisher byte) *numbered {
	t.Helper()
	end := n.queue(t, q)
	return &numbered{node: n, queue: end, publisher: publisher}
}

func (p *numbered) publish(ctx context.Context) error {
	p.sent++
	body := binary.BigEndian.AppendUint64([]byte{p.publisher}, p.sent)
	nm := quorumq.NewMessage{Size: uint32(len(body)), TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority}
	return p.queue.Enqueue(ctx, nm, body, func(err error) {
		if err != nil {
			p.failed.Store(&err)
			return
		}
		p.confirmed.Add(1)
	})
}

// ledger checks what consumers are delivered: every message of a publisher once, in order.
type ledger struct {
	mu     sync.Mutex
	newest map[byte]uint64
	faults []string
	// ahead holds a token per message sent and not entered: publishers wait for consumers.
	ahead chan struct{}
}

func (l *ledger) enter(body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	publisher, number := body[0], binary.BigEndian.Uint64(body[1:])
	if number != l.newest[publisher]+1 {
		l.faults = append(l.faults, fmt.Sprintf("publisher %d: %d after %d", publisher, number, l.newest[publisher]))
	}
	l.newest[publisher] = number
	select {
	case <-l.ahead:
	default: // a repeat
	}
}

func (l *ledger) total() (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, newest := range l.newest {
		n += newest
	}
	return n
}

// Leadership moves under load, then the leader's node stops: nothing is lost, repeated or
// overtaken, wherever publishers and consumer are connected (PUB-6, PUB-7, DEL-12, DEL-13).
func TestLeaderChangesUnderLoad(t *testing.T) {
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	uid := n.nodes["a"].declare(t, "load", 3)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	seen := &ledger{newest: map[byte]uint64{}, ahead: make(chan struct{}, 1000)}
	end := n.nodes["b"].queue(t, uid)
	consumer := make(chan *gateway.Consumer, 1)
	c, err := end.Consume(ctx, gateway.ConsumerConfig{
		Prefetch: 200,
		Deliver: func(ds []traffic.Delivery) {
			for _, d := range ds {
				seen.enter(d.Message)
			}
			c := <-consumer
			consumer <- c
			c.Decide(quorumq.MsgIDRange{First: ds[0].MsgID, Last: ds[len(ds)-1].MsgID}, gateway.Decision{Kind: gateway.Ack})
		},
		Ended: func(err error) { t.Errorf("consumer ended: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	consumer <- c

	stop := make(chan struct{})
	publishers := []*numbered{n.nodes["a"].numbered(t, uid, 1), n.nodes["b"].numbered(t, uid, 2)}
	var running sync.WaitGroup
	for _, p := range publishers {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				case seen.ahead <- struct{}{}:
				}
				if err := p.publish(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for _, to := range []id.NodeID{"b", "c", "a", "c"} {
		before := seen.total()
		poll(t, "messages flow", func() error {
			if seen.total() < before+500 {
				return errWaiting
			}
			return nil
		})
		poll(t, "leadership moves", func() error {
			if l := n.leader(uid); l.cfg.Node == to {
				return nil
			}
			return errors.Join(errWaiting, n.nodes["a"].leaders.Transfer(ctx, uid, to))
		})
	}
	n.stop("c")
	before := seen.total()
	poll(t, "messages flow without the old leader", func() error {
		if seen.total() < before+500 {
			return errWaiting
		}
		return nil
	})
	close(stop)
	running.Wait()
	var sent uint64
	for _, p := range publishers {
		sent += p.sent
		poll(t, "all are confirmed", func() error {
			if got := p.confirmed.Load(); got != p.sent {
				return fmt.Errorf("publisher %d: %d of %d", p.publisher, got, p.sent)
			}
			return nil
		})
		if err := p.failed.Load(); err != nil {
			t.Error(*err)
		}
	}
	poll(t, "all are consumed", func() error {
		if got := seen.total(); got != sent {
			return fmt.Errorf("%d of %d", got, sent)
		}
		return nil
	})
	if err := c.Flush(ctx); err != nil {
		t.Error(err)
	}
	if len(seen.faults) > 0 {
		t.Errorf("%d faults, the first: %s", len(seen.faults), seen.faults[0])
	}
	if o := n.overview(uid); o.Ready != 0 || o.Unsettled != 0 || o.Redelivered != 0 {
		t.Errorf("queue holds %d ready, %d unsettled, redelivered %d", o.Ready, o.Unsettled, o.Redelivered)
	}
	c.Close()
	t.Logf("%d messages", sent)
}

// After a session was timed out the queue numbers new consumers from above its ids; their
// clients see numbers from 1, credit and decisions fit (DC-1).
func TestConsumerAfterTimedOutSession(t *testing.T) {
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	uid := n.nodes["a"].declare(t, "impatient", 3, number("x-consumer-disconnected-timeout", 1))
	for i := range 7 {
		n.nodes["a"].publish(t, uid, fmt.Sprint(i), quorumq.Unlimited)
	}
	lost := quorumq.SessionKey{Node: "elsewhere", Epoch: 1, Session: 1}
	n.do(uid, &quorumq.Checkout{Consumer: quorumq.ConsumerKey{SessionKey: lost, Tag: 1}})
	n.do(uid, &quorumq.NodeDown{Node: lost.Node, Epoch: lost.Epoch})
	poll(t, "the session is timed out", func() error {
		if o := n.overview(uid); o.Unsettled > 0 || o.Ready != 7 {
			return errWaiting
		}
		return nil
	})
	for _, node := range []id.NodeID{"a", "b"} {
		end := n.nodes[node].queue(t, uid)
		in := &testInbox{}
		c, err := end.Consume(testContext(t), gateway.ConsumerConfig{Credit: true, Limit: 2, Deliver: in.take})
		if err != nil {
			t.Fatal(err)
		}
		poll(t, "the first two are delivered", func() error { return in.ids(1, 2) })
		c.Credit(3)
		poll(t, "the third is delivered", func() error { return in.ids(1, 2, 3) })
		if got := c.Decide(quorumq.MsgIDRange{First: 1, Last: 3}, gateway.Decision{Kind: gateway.Ack}); got != 3 {
			t.Errorf("decided about %d", got)
		}
		if err := c.Flush(testContext(t)); err != nil {
			t.Error(err)
		}
		c.Close()
	}
	poll(t, "one is left", func() error {
		if o := n.overview(uid); o.Ready != 1 || o.Unsettled != 0 {
			return fmt.Errorf("%d ready, %d unsettled", o.Ready, o.Unsettled)
		}
		return nil
	})
}

// ids reports whether these were delivered.
func (i *testInbox) ids(want ...quorumq.MsgID) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	var got []quorumq.MsgID
	for _, d := range i.ds {
		got = append(got, d.MsgID)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("have %d", got)
	}
	return nil
}

// A consumer that the queue timed out learns of it, and its session is closed for good:
// nothing stays assigned to it (DC-1, CO-3).
func TestTimedOutConsumerEnds(t *testing.T) {
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	uid := n.nodes["a"].declare(t, "short", 3, number("x-consumer-disconnected-timeout", 1))
	n.nodes["a"].publish(t, uid, "one", quorumq.Unlimited)
	end := n.nodes["b"].queue(t, uid)
	ended := make(chan error, 1)
	in := &testInbox{}
	c, err := end.Consume(testContext(t), gateway.ConsumerConfig{Deliver: in.take, Ended: func(err error) { ended <- err }})
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "it is delivered", func() error { return in.ids(1) })
	n.do(uid, &quorumq.NodeDown{Node: "b", Epoch: n.nodes["b"].epoch})
	select {
	case err := <-ended:
		if !errors.Is(err, traffic.ErrConsumerGone) {
			t.Errorf("it ended with %v", err)
		}
	case <-testContext(t).Done():
		t.Fatal("the client was not told")
	}
	poll(t, "the session is closed", func() error {
		if o := n.overview(uid); o.Ready != 1 || o.Unsettled != 0 || o.Sessions != 0 {
			return fmt.Errorf("%d ready, %d unsettled, %d sessions", o.Ready, o.Unsettled, o.Sessions)
		}
		return nil
	})
	late := quorumq.AppendCommand(nil, &quorumq.Checkout{Consumer: c.Token().Consumer})
	// The queue ends the session by itself; the gateway has it closed a moment later.
	poll(t, "a late registration is refused", func() error {
		answered := make(chan error, 1)
		n.leader(uid).host.Submit(uid, raftfsm.Command{Header: late}, func(r quorumq.Reply, err error) {
			if err == nil && r.Code != quorumq.CodeUnknownConsumer {
				err = fmt.Errorf("it is answered with code %d", r.Code)
			}
			answered <- err
		})
		return <-answered
	})
}
