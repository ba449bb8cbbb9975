package transport

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/gate"
)

// caught sends the connections that a gate's listener accepts to conns.
type caught struct {
	net.Listener
	conns chan *gate.Conn
}

func (l *caught) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if g := gate.From(c); g != nil {
		l.conns <- g
	}
	return c, err
}

// userTimeout returns the time for which the kernel lets sent bytes stay unacknowledged.
func userTimeout(t *testing.T, c syscall.Conn) time.Duration {
	t.Helper()
	return time.Duration(option(t, c, unix.TCP_USER_TIMEOUT)) * time.Millisecond
}

// evenly reports whether the kernel tries again at even intervals while few packets are on their way.
func evenly(t *testing.T, c syscall.Conn) bool {
	t.Helper()
	return option(t, c, unix.TCP_THIN_LINEAR_TIMEOUTS) == 1
}

// option returns the value of a connection's option.
func option(t *testing.T, c syscall.Conn, name int) int {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var value int
	var got error
	err = raw.Control(func(fd uintptr) {
		value, got = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, name)
	})
	if err != nil || got != nil {
		t.Fatal(err, got)
	}
	return value
}

// The kernels of both ends drop a connection on which nothing is acknowledged, those for heartbeats among them.
func TestAcknowledgeWithin(t *testing.T) {
	const want = 3 * time.Second
	conf := testConfig("n2", 1)
	conf.PingTimeout = want * 2 / 3
	conf.Handler = &recorder{}
	m, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peers := gate.New(gate.Config{Name: "peers"})
	l := &caught{peers.Listen(plain), make(chan *gate.Conn, 16)}
	b := &node{Mux: m, address: plain.Addr().String(), served: make(chan error, 1)}
	go func() { b.served <- m.Serve(l) }()
	t.Cleanup(func() { b.stop(t) })
	a := start(t, testConfig("n1", 1))
	a.SetPeer("n2", b.address)
	connected(t, a, b)
	for range 2 { // n1 opens one for the streams and one for heartbeats
		c := <-l.conns
		until(t, "an accepted connection is bounded", func() bool { return userTimeout(t, c) == want && evenly(t, c) })
	}
	c, err := b.dial(t.Context(), a.address, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	tcp, _ := c.(*net.TCPConn)
	if got := userTimeout(t, tcp); got != want {
		t.Errorf("an opened connection is bounded by %v, want %v", got, want)
	}
	if !evenly(t, tcp) {
		t.Error("an opened connection waits twice as long after each attempt")
	}
}
