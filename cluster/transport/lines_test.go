package transport

import (
	"errors"
	"net"
	"testing"

	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/internal/gate"
)

// Both ends look after the connection of the streams, from when it is opened to its end, and not after that for
// heartbeats.
func TestLinesOfPeers(t *testing.T) {
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conf := testConfig("n2", 1)
	conf.Handler = &recorder{}
	m, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	b := &node{Mux: m, address: plain.Addr().String(), served: make(chan error, 1)}
	go func() { b.served <- m.Serve(gate.New(gate.Config{Name: "peers"}).Listen(plain)) }()
	t.Cleanup(func() { b.stop(t) })
	a := start(t, testConfig("n1", 1))
	a.SetPeer("n2", b.address)
	connected(t, a, b)
	opened, accepted := &a.pulses.Of("n2").Lines, &b.pulses.Of("n1").Lines
	connects := func() uint64 { return a.Stats().Peers[0].Connects } // of those that were opened to the end
	until(t, "each end has one connection", func() bool { return len(opened.All()) == 1 && len(accepted.All()) == 1 })
	old := accepted.All()[0]

	pc, err := a.connection("n2")
	if err != nil {
		t.Fatal(err)
	}
	before := connects()
	pc.abandon(errors.New("for the test"))
	if _, err := pc.conn.Load().Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection that is abandoned takes bytes: %v", err)
	}
	until(t, "each end has the next one", func() bool {
		x, y := opened.All(), accepted.All()
		return len(x) == 1 && len(y) == 1 && x[0].Conn != pc.conn.Load() && y[0] != old && connects() > before
	})

	theirs := accepted.All()[0]
	before = connects()
	theirs.GiveUp(ErrNotConnected) // as unstick does
	pulse.Reset(theirs.Conn)
	until(t, "the opener connects again", func() bool {
		x, y := opened.All(), accepted.All()
		return len(x) == 1 && len(y) == 1 && y[0] != theirs && connects() > before
	})
	a.RemovePeer("n2")
	until(t, "nothing is left", func() bool { return len(opened.All()) == 0 && len(accepted.All()) == 0 })
}
