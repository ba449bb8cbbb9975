package cluster

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// valve passes on what comes to its address, to the other one; what goes back waits while it is
// shut.
type valve struct {
	address string
	mu      sync.Mutex
	opened  *sync.Cond
	shut    bool
	conns   []net.Conn // of those that came
}

func newValve(t *testing.T, address string) *valve {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	v := &valve{address: l.Addr().String()}
	v.opened = sync.NewCond(&v.mu)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(t.Context(), func() { v.set(false); _ = in.Close() })
			var d net.Dialer
			out, err := d.DialContext(t.Context(), "tcp", address)
			if err != nil {
				_ = in.Close()
				continue
			}
			v.mu.Lock()
			v.conns = append(v.conns, in)
			v.mu.Unlock()
			go pass(out, in)
			go pass(valved{in, v}, out)
		}
	}()
	return v
}

func (v *valve) set(shut bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = shut
	v.opened.Broadcast()
}

// cut breaks what is connected. What waits is lost.
func (v *valve) cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.conns {
		_ = c.Close()
	}
	v.conns = nil
}

type valved struct {
	net.Conn
	v *valve
}

func (c valved) Write(b []byte) (int, error) {
	c.v.mu.Lock()
	for c.v.shut {
		c.v.opened.Wait()
	}
	c.v.mu.Unlock()
	return c.Conn.Write(b)
}

// stuck is a queue that a leads, and a consumer of b that holds all of its messages: some are on
// their way, and the rest waits for a connection that does not move.
type stuck struct {
	*testNodes
	valve *valve
	uid   id.QueueUID
	in    *testInbox
}

const stuckMessages = 100

// newStuck makes one that goes by the rules of a cluster that leaves it to an operator to finalise
// a version, or does not.
func newStuck(t *testing.T, manual bool) *stuck {
	t.Helper()
	s := &stuck{}
	s.testNodes = newTestNodes(t, func(c *Config) {
		steady(c)
		c.ManualFinalise = manual
		if c.Node == "a" {
			s.valve = newValve(t, c.PeerAddr)
			c.PeerAddr = s.valve.address
		}
	})
	s.start("a", "b", "c")
	s.uid = s.nodes["a"].declare(t, "q", 3)
	if manual {
		s.ruled(s.uid, quorumq.RulesFirst)
	} else {
		s.ruled(s.uid, quorumq.NewestRules)
	}
	_, s.in = s.nodes["b"].consume(t, s.uid)
	s.valve.set(true)
	pad := strings.Repeat("x", 256<<10) // more than sockets hold
	confirmed := make(chan error, stuckMessages)
	end := s.nodes["a"].queue(t, s.uid)
	for i := range stuckMessages { // together: what stands still for long is cut
		body := fmt.Append(nil, i, " ", pad)
		m := quorumq.NewMessage{Size: uint32(len(body)), TTLMs: quorumq.Unlimited}
		if err := end.Enqueue(testContext(t), m, body, func(err error) { confirmed <- err }); err != nil {
			t.Fatal(err)
		}
	}
	for range stuckMessages {
		if err := <-confirmed; err != nil {
			t.Fatal(err)
		}
	}
	if o, err := s.nodes["a"].leaders.Status(testContext(t), s.uid); err != nil || o.Overview.Unsettled != stuckMessages {
		t.Fatalf("%d are assigned: %v", o.Overview.Unsettled, err)
	}
	return s
}

// end ends the process of b, which says nothing before, and returns what a consumer of a then gets.
func (s *stuck) end(t *testing.T) []traffic.Delivery {
	t.Helper()
	s.nodes["b"].gateway.Close()
	s.stop("b")
	return s.rest(t)
}

func (s *stuck) rest(t *testing.T) []traffic.Delivery {
	t.Helper()
	_, in := s.nodes["a"].consume(t, s.uid)
	poll(t, "all have come back", func() error {
		if got := len(in.bodies()); got != stuckMessages {
			return fmt.Errorf("%d of %d", got, stuckMessages)
		}
		return nil
	})
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, d := range in.ds {
		if number, _, _ := strings.Cut(string(d.Message), " "); number != fmt.Sprint(i) {
			t.Errorf("message %s came as number %d", number, i)
		}
		if d.AcquiredCount != 1 {
			t.Errorf("message %d: assigned %d times before", i, d.AcquiredCount)
		}
	}
	return in.ds
}

// DEL-8: of what a consumer held whose process has ended, that is no failure which never left for
// its node; all that may have been delivered is. It comes back in order, and as assigned before:
// who gets it may have had later ones (PUB-6).
func TestUnsentReturns(t *testing.T) {
	t.Parallel()
	s := newStuck(t, false)
	ds := s.end(t)
	counted := 0
	for counted < len(ds) && ds[counted].DeliveryCount == 1 {
		counted++
	}
	for i, d := range ds[counted:] {
		if d.DeliveryCount != 0 {
			t.Errorf("message %d failed %d times, %d of those before it did not", counted+i, d.DeliveryCount, i)
		}
	}
	if got := len(s.in.bodies()); counted == 0 || counted == len(ds) || got > counted {
		t.Errorf("%d of %d failed, %d were delivered", counted, len(ds), got)
	}
	t.Logf("%d failed, %d did not", counted, len(ds)-counted)
}

// DEL-8: what did not leave before the connection broke is delivered once it is there again, and counts
// from then on.
func TestUnsentIsSentLater(t *testing.T) {
	t.Parallel()
	s := newStuck(t, false)
	s.valve.cut()
	s.valve.set(false)
	poll(t, "b gets the rest", func() error {
		if got := len(s.in.bodies()); got != stuckMessages {
			return fmt.Errorf("%d of %d", got, stuckMessages)
		}
		return nil
	})
	for i, d := range s.end(t) {
		if d.DeliveryCount != 1 {
			t.Errorf("message %d: %d", i, d.DeliveryCount)
		}
	}
}

// DEL-8: until a version is finalised that knows of it, all counts.
func TestUnsentBefore(t *testing.T) {
	t.Parallel()
	s := newStuck(t, true)
	for i, d := range s.end(t) {
		if d.DeliveryCount != 1 {
			t.Errorf("message %d: %d", i, d.DeliveryCount)
		}
	}
}
