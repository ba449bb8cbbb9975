package client

import (
	"net"
	"testing"
	"time"
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
	usual, a, b, dead := node(), node(), node(), silent(t)
	c, err := New(Config{Addresses: []string{usual, a, b, dead}, FixedAddresses: true, ProbeTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.nodes.mu.Lock()
	c.nodes.current = 0
	c.nodes.mu.Unlock()
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
		if n, err := c.nodes.pickFirst(t.Context(), row.first); err != nil || n.address != row.want {
			t.Errorf("%v: it goes to %v, %v, want %s", row.first, n, err, row.want)
		}
	}
}
