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
