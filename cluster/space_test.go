package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// slowClient takes deliveries when the test says so.
type slowClient struct {
	stats  gateway.BufferStats
	buffer *gateway.Buffer

	mu      sync.Mutex
	arrived []traffic.Delivery
	most    int64 // that were in the buffer at a time
	taken   []traffic.Delivery
	last    map[id.QueueUID]quorumq.MsgID // that has arrived
}

func newSlowClient(limit int64) *slowClient {
	s := &slowClient{last: map[id.QueueUID]quorumq.MsgID{}}
	s.buffer = gateway.NewBuffer(limit, &s.stats)
	return s
}

func (s *slowClient) deliver(q id.QueueUID, ds []traffic.Delivery) {
	if len(ds) == 0 { // nothing more is pending
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[q] = ds[len(ds)-1].MsgID
	s.arrived = append(s.arrived, ds...)
	s.most = max(s.most, s.stats.Held.Load())
}

func (s *slowClient) mostHeld() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

func (s *slowClient) lastOf(q id.QueueUID) quorumq.MsgID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[q]
}

// takeOne takes the first delivery that has arrived.
func (s *slowClient) takeOne() bool {
	s.mu.Lock()
	if len(s.arrived) == 0 {
		s.mu.Unlock()
		return false
	}
	d := s.arrived[0]
	s.arrived = s.arrived[1:]
	s.taken = append(s.taken, d)
	s.mu.Unlock()
	s.buffer.Release(d.Size())
	return true
}

func (s *slowClient) consume(t *testing.T, n *testNode, q id.QueueUID) *gateway.Consumer {
	t.Helper()
	c, err := n.queue(t, q).Consume(testContext(t), gateway.ConsumerConfig{
		Deliver: func(ds []traffic.Delivery) { s.deliver(q, ds) }, Buffer: s.buffer, Ended: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	slowSize  = 250
	slowLimit = 4000
)

func slowBody(i int) string { return fmt.Sprintf("%0*d", slowSize, i) }

// A client that takes nothing has as much handed over as its buffer holds and one message,
// though far more is assigned to it, wherever the queue's leader is and after it has changed;
// the leader sends it nothing in vain. Then it gets everything once and in order.
func TestFullBuffer(t *testing.T) {
	t.Parallel()
	var frames atomic.Int64 // of deliveries that a sends
	n := newTestNodes(t, func(cfg *Config) {
		steady(cfg)
		if cfg.Node != "a" {
			return
		}
		cfg.hosting = func(host *replica.Config) {
			host.Transport = answering{host.Transport, func(f *nodev1.Frame) error {
				if f.GetDeliveries() != nil {
					frames.Add(1)
				}
				return nil
			}}
		}
	})
	n.start("a", "b", "c")
	for _, at := range []id.NodeID{"a", "b"} {
		q := n.nodes["a"].declare(t, "at-"+string(at), 3)
		s := newSlowClient(slowLimit)
		c := s.consume(t, n.nodes[at], q)
		next := 0
		publish := func(count int) {
			for range count {
				n.nodes["a"].publish(t, q, slowBody(next), quorumq.Unlimited)
				next++
			}
			poll(t, "all is assigned", func() error {
				if o := n.overview(q); o.Unsettled != uint64(next) {
					return fmt.Errorf("%d of %d", o.Unsettled, next)
				}
				return nil
			})
		}
		publish(100)
		stopped := func() {
			poll(t, "the consumer waits", func() error {
				if held := s.stats.Held.Load(); !c.HasPending() || held < slowLimit {
					return fmt.Errorf("some is pending: %v, %d bytes are held", c.HasPending(), held)
				}
				return nil
			})
		}
		stopped()
		quiet := 0
		poll(t, "the leader knows that there is no room", func() error {
			before := frames.Load()
			publish(1)
			if quiet++; frames.Load() != before {
				quiet = 0
			}
			if quiet < 3 {
				return errWaiting
			}
			return nil
		})
		before := frames.Load()
		publish(20)
		if got := frames.Load(); got != before {
			t.Errorf("%s: %d frames of deliveries went to a gateway without room", at, got-before)
		}
		if err := n.nodes["a"].leaders.Transfer(testContext(t), q, "c"); err != nil {
			t.Fatal(err)
		}
		stopped()
		publish(20)
		for taken := 0; taken < next; {
			poll(t, fmt.Sprintf("delivery %d comes", taken), func() error {
				if !s.takeOne() {
					return errWaiting
				}
				return nil
			})
			taken++
		}
		for i, d := range s.taken {
			if d.MsgID != quorumq.MsgID(i+1) || string(d.Message) != slowBody(i) {
				t.Fatalf("%s: delivery %d is %d, %s", at, i, d.MsgID, d.Message)
			}
		}
		if most := s.mostHeld(); most > slowLimit+slowSize {
			t.Errorf("%s: %d bytes were held, want at most %d", at, most, slowLimit+slowSize)
		}
		publish(1) // deliveries come by themselves again
		poll(t, "one more", func() error {
			if !s.takeOne() {
				return errWaiting
			}
			return nil
		})
		poll(t, "nothing is held or pending in the end", func() error {
			if s.stats.Held.Load() != 0 || c.HasPending() {
				return fmt.Errorf("%s: %d bytes are held, pending %v", at, s.stats.Held.Load(), c.HasPending())
			}
			return nil
		})
		c.Close()
	}
}

// Consumers that share a buffer make progress in turn, none with more than its share, and one that ends leaves the
// others its place.
func TestSharedBuffer(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	s := newSlowClient(slowLimit)
	const queues, each = 4, 40
	var all []*gateway.Consumer
	var uids []id.QueueUID
	for i := range queues {
		q := n.nodes["a"].declare(t, fmt.Sprint("q", i), 3)
		for k := range each {
			n.nodes["a"].publish(t, q, slowBody(k), quorumq.Unlimited)
		}
		all, uids = append(all, s.consume(t, n.nodes["b"], q)), append(uids, q)
	}
	poll(t, "all but those who were first wait", func() error {
		waiting := 0
		for _, c := range all {
			if c.HasPending() {
				waiting++
			}
		}
		if waiting < queues-1 {
			return fmt.Errorf("%d wait", waiting)
		}
		return nil
	})
	gone := all[queues-1]
	gone.Close()
	poll(t, "the others get everything", func() error {
		for s.takeOne() {
		}
		for _, q := range uids[:queues-1] {
			if last := s.lastOf(q); last != each {
				return fmt.Errorf("the last was %d", last)
			}
		}
		return nil
	})
	if most := s.mostHeld(); most > slowLimit+slowSize {
		t.Errorf("%d bytes were held, want at most %d", most, slowLimit+slowSize)
	}
	poll(t, "nothing is pending for a consumer in the end", func() error {
		for i, c := range all[:queues-1] {
			if c.HasPending() {
				return fmt.Errorf("that of queue %d is", i)
			}
		}
		return nil
	})
}
