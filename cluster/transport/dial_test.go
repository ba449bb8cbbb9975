package transport

import (
	"net"
	"strings"
	"testing"
	"time"
)

// A peer is looked for at all of its addresses, and at the one that led to it first when
// its connections are opened again.
func TestAddresses(t *testing.T) {
	closed := func(t *testing.T, _ *node) string {
		var lc net.ListenConfig
		l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // nothing uses it
		return l.Addr().String()
	}
	for _, c := range []struct {
		name  string
		wrong func(t *testing.T, a *node) string
	}{
		{"nobody listens", closed},
		{"nobody answers", func(*testing.T, *node) string { return "192.0.2.1:9" }}, // for documentation: leads nowhere
		{"another node answers", func(t *testing.T, _ *node) string { return start(t, testConfig("n3", 1)).address }},
		{"this node answers", func(_ *testing.T, a *node) string { return a.address }},
		{"another cluster answers", func(t *testing.T, _ *node) string {
			conf := testConfig("n2", 1)
			conf.Cluster = "other"
			return start(t, conf).address
		}},
		{"the name is not known", func(*testing.T, *node) string { return "n2.invalid:1" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := testConfig("n1", 1)
			conf.RetryMin, conf.RetryMax, conf.RetryRefuse = time.Hour, time.Hour, time.Hour // one round is enough
			conf.FallbackAfter, conf.DialTimeout = 50*time.Millisecond, 20*time.Second
			a, b := start(t, conf), start(t, testConfig("n2", 1))
			wrong := c.wrong(t, a)
			a.SetPeer("n2", wrong, b.address)
			connected(t, a, b)
			if got := a.Stats().Peers[0].Address; got != b.address {
				t.Errorf("the connection is to %s, want %s", got, b.address)
			}
			if got := a.lookup("n2").candidates(); got[0] != b.address || got[1] != wrong {
				t.Errorf("next time %v are tried, want what worked first", got)
			}
		})
	}
}

// Connections stay while their address is among the peer's, and go with it. A peer that is refused
// at one address and not reached at the other is tried often.
func TestAddressesChange(t *testing.T) {
	conf := testConfig("n1", 1)
	conf.RetryRefuse = time.Hour
	outsider := testConfig("n2", 1)
	outsider.Cluster = "other"
	a, b, other := start(t, conf), start(t, testConfig("n2", 1)), start(t, outsider)
	a.SetPeer("n2", "n2.invalid:1", b.address)
	connected(t, a, b)
	a.SetPeer("n2", b.address, "n2.invalid:1")
	a.SetPeer("n2", b.address)
	if s := a.Stats().Peers[0]; !s.Up || s.Connects != 1 {
		t.Errorf("up %v, connected %d times, want once", s.Up, s.Connects)
	}
	failures := a.lookup("n2").failure.Load()
	a.SetPeer("n2", other.address, "n2.invalid:1")
	until(t, "both addresses were tried three times", func() bool { return a.lookup("n2").failure.Load() >= failures+3 })
	for _, want := range []string{"belongs to cluster", "n2.invalid"} {
		if got := a.Stats().Peers[0].LastError; !strings.Contains(got, want) {
			t.Errorf("failed with\n%s\nwant %s in it", got, want)
		}
	}
	a.SetPeer("n2", other.address)
	until(t, "it is told as refused", func() bool {
		return !strings.Contains(a.Stats().Peers[0].LastError, "n2.invalid")
	})
}

// An address that is left is not waited for.
func TestAddressLeft(t *testing.T) {
	conf := testConfig("n1", 1)
	conf.DialTimeout = time.Hour
	a, b := start(t, conf), start(t, testConfig("n2", 1))
	frozen := newRelay(t, b.address)
	frozen.freeze()
	a.SetPeer("n2", frozen.address)
	until(t, "it is being tried", func() bool {
		p := a.lookup("n2")
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.trying != nil
	})
	a.SetPeer("n2", b.address)
	connected(t, a, b)
}

// A connection leads one way: that this node has one to a peer does not say that the peer has one to it.
func TestCalledBy(t *testing.T) {
	a, b := start(t, testConfig("n1", 1)), start(t, testConfig("n2", 1))
	a.SetPeer("n2", b.address)
	connected(t, a, b)
	until(t, "n2 is called", func() bool { return b.CalledBy("n1") })
	if a.CalledBy("n2") {
		t.Error("n1 is called by n2, which does not know its address")
	}
	b.SetPeer("n1", a.address)
	until(t, "n1 is called back", func() bool { return a.CalledBy("n2") })
	b.RemovePeer("n1")
	until(t, "n1 is not called any more", func() bool { return !a.CalledBy("n2") })
}
