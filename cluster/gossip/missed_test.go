package gossip

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
)

// soon is well below the half minute after which memberlist exchanges states by itself.
const soon = 10 * time.Second

// Nodes that join another one just before that learns of a third learn of the third soon, although no datagram
// reaches them: they exchange states once more.
func TestJoinsWhileOthersDo(t *testing.T) {
	c := start(t, config("c", 1))
	var all []*member
	for i := range 5 {
		conf := config(fmt.Sprintf("d%d", i), 1, c.GossipAddr())
		conf.BindAddr = freeAddress(t)
		conf.Advertise = forwardTCP(t, conf.BindAddr)
		conf.JoinEvery, conf.ProbeEvery = time.Second, time.Minute // answers to probes would bring news
		d := start(t, conf)
		c.sees(t, conf.Node.ID, 1, true)
		all = append(all, d)
	}
	a := start(t, config("a", 1, c.GossipAddr()))
	deadline := time.Now().Add(soon)
	for _, d := range all {
		for !d.knows(a.config.Node.ID) {
			if time.Now().After(deadline) {
				t.Fatalf("%s does not know of a after %v", d.config.Node.ID, soon)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (m *member) knows(n id.NodeID) bool {
	_, known := m.state(n, false)
	return known
}

// forwardTCP returns an address from which connections, but no datagrams, come to another.
func forwardTCP(t *testing.T, to string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { forward(in, to) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// forward ends when both sides have said all.
func forward(in net.Conn, to string) {
	defer func() { _ = in.Close() }()
	out, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	var all sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		all.Go(func() {
			_, _ = io.Copy(way[1], way[0])
			if half, ok := way[1].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	all.Wait()
}
