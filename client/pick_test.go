package client

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/internal/loopback"
)

// silent accepts connections and sends nothing.
func silent(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return l.Addr().String()
}

// A client does not wait for addresses where nobody answers: their probes would take longer than the test may.
func TestDeadAddresses(t *testing.T) {
	t.Parallel()
	good := serve(t, &faultyNode{storage: &storage{seen: map[string]uint64{}}})
	c, err := New(Config{Addresses: []string{silent(t), silent(t), good}, FixedAddresses: true, ProbeTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.nodes.mu.Lock()
	c.nodes.current = 0
	c.nodes.mu.Unlock()
	if _, err := c.ClusterStatus(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := c.nodes.pick(t.Context()); err != nil || n.address != good {
		t.Errorf("the next call goes to %v, %v", n, err)
	}
}

// A call goes to the first of the addresses that it prefers where a node answers, and where none does to any. The client's
// other calls stay where they were.
func TestPickFirst(t *testing.T) {
	t.Parallel()
	node := func() string { return serve(t, &faultyNode{storage: &storage{seen: map[string]uint64{}}}) }
	usual, a, b := node(), node(), node()
	dead, err := loopback.Address() // it refuses connections
	if err != nil {
		t.Fatal(err)
	}
	c := startsAt(t, Config{ // a busy machine takes a while to connect: that is no failure here
		Addresses: []string{usual, a, b, dead}, FixedAddresses: true, ProbeInterval: time.Hour, ProbeTimeout: time.Minute,
	})
	answered(t, c, []string{usual, a, b}) // on a busy machine their first answers may take longer than a call waits
	for _, row := range []struct {
		first []string
		want  string
	}{
		{nil, usual},
		{[]string{b, a}, b},
		{[]string{"127.0.0.1:1", a}, a}, // it does not know the first one
		{[]string{dead, b}, b},
		{[]string{dead}, usual}, // now it knows that it is dead
		{[]string{a}, a},
		{nil, usual},
	} {
		if n, err := c.nodes.pickFirst(t.Context(), time.Now(), row.first); err != nil || n.address != row.want {
			t.Errorf("%v: it goes to %v, %v, want %s", row.first, n, err, row.want)
		}
	}
}

// probes returns a client that starts at usual and knows other, too. probed gets a token for each probe of other,
// which continues when held is closed.
func probes(t *testing.T, usual, other string, held chan struct{}) (c *Client, probed chan struct{}) {
	t.Helper()
	probed = make(chan struct{}, 100)
	hold := func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasSuffix(conn.Target(), other) && strings.HasSuffix(method, "/Check") {
			probed <- struct{}{}
			select {
			case <-held:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return call(ctx, method, in, out, conn, opts...)
	}
	c = startsAt(t, Config{
		Addresses: []string{usual, other}, FixedAddresses: true, ProbeInterval: time.Hour, ProbeTimeout: time.Hour,
		DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(hold)},
	})
	answered(t, c, []string{usual})
	return c, probed
}

// nodeAt returns what a client has for an address that it knows.
func nodeAt(t *testing.T, c *Client, address string) *node {
	t.Helper()
	c.nodes.mu.Lock()
	defer c.nodes.mu.Unlock()
	n, err := c.nodes.at(address)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A preferred address where nobody answers costs a call no more than pickStagger, and the next calls nothing, for a time
// that doubles: its probes would take longer than the test may.
func TestPickFirstPassesOver(t *testing.T) {
	t.Parallel()
	usual, dead := serve(t, &faultyNode{storage: &storage{seen: map[string]uint64{}}}), silent(t)
	held := make(chan struct{})
	close(held)
	c, probed := probes(t, usual, dead, held)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	for _, row := range []struct {
		at    time.Duration
		asked bool
	}{
		{0, true},
		{0, false},
		{badTime - 1, false},
		{badTime, true},
		{3*badTime - 1, false},
		{3 * badTime, true},
		{7*badTime - 1, false},
		{7 * badTime, true},
	} {
		n, err := c.nodes.pickFirst(ctx, began.Add(row.at), []string{dead})
		if err != nil || n.address != usual {
			t.Fatalf("after %v: it goes to %v, %v", row.at, n, err)
		}
		if row.asked {
			select {
			case <-probed:
			case <-ctx.Done():
				t.Fatalf("after %v: the preferred address is not asked", row.at)
			}
		}
		if len(probed) > 0 {
			t.Fatalf("after %v: the preferred address is asked again", row.at)
		}
	}
}

// A preferred node that answers late is passed over, and keeps what runs over it.
func TestPickFirstKeepsLateNode(t *testing.T) {
	t.Parallel()
	node := func() string { return serve(t, &faultyNode{storage: &storage{seen: map[string]uint64{}}}) }
	usual, late := node(), node()
	held := make(chan struct{})
	c, probed := probes(t, usual, late, held)
	n := nodeAt(t, c, late)
	use, release, err := n.use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	now := time.Now()
	if got, err := c.nodes.pickFirst(ctx, now, []string{late}); err != nil || got.address != usual {
		t.Fatalf("it goes to %v, %v", got, err)
	}
	<-probed
	if use.Err() != nil || nodeAt(t, c, late) != n || n.bad(now) || !n.passed(now) {
		t.Errorf("what runs over the node ends: %v; it is lost: %v, passed over: %v", use.Err(), n.bad(now), n.passed(now))
	}
	close(held)
}

// The time for which a node is passed over has a limit, outlasts its connection, and ends when it answers.
func TestPassOver(t *testing.T) {
	t.Parallel()
	address := serve(t, &faultyNode{storage: &storage{seen: map[string]uint64{}}})
	c, err := New(Config{Addresses: []string{address}, FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	now := time.Now()
	for _, seconds := range []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		n := nodeAt(t, c, address)
		n.passOver(now)
		n.passOver(now.Add(time.Millisecond)) // another call finds out the same
		until := now.Add(seconds * time.Second)
		c.nodes.reconnect(n)
		if fresh := nodeAt(t, c, address); fresh == n || !fresh.passed(until.Add(-1)) || fresh.passed(until) {
			t.Fatalf("it is not passed over for %d s: %v", seconds, fresh.passUntil.Sub(now))
		}
		now = until
	}
	n := nodeAt(t, c, address)
	n.passOver(now)
	if _, err := n.probe(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if n.passed(now) {
		t.Error("it is passed over after an answer")
	}
	if n.passOver(now); n.passed(now.Add(badTime)) {
		t.Error("after an answer, the first time is not the shortest")
	}
}
