package grpcapi

import (
	"net"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/quorate/quorate/internal/testnode"
)

// accepted sends the connections that a listener accepts to conns.
type accepted struct {
	net.Listener
	conns chan *net.TCPConn
}

func (l *accepted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		l.conns <- tcp
	}
	return c, err
}

// The kernel ends a connection whose client reads nothing for as long as keepalive waits. gRPC itself does not see the
// connection behind the gate.
func TestUserTimeout(t *testing.T) {
	const tcpUserTimeout, within = 18, 7 * time.Second
	s := New(Config{Broker: brokerOf(t, testnode.Waiting(t), false), KeepaliveTimeout: within})
	plain, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &accepted{plain, make(chan *net.TCPConn, 16)}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	cc, err := grpc.NewClient(plain.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cc.Close()
		if err := s.Shutdown(testContext(t)); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	if _, err := healthv1.NewHealthClient(cc).Check(testContext(t), &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	raw, err := (<-l.conns).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	var got error
	if err := raw.Control(func(fd uintptr) { ms, got = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout) }); err != nil {
		t.Fatal(err)
	}
	if got != nil || time.Duration(ms)*time.Millisecond != within {
		t.Errorf("TCP_USER_TIMEOUT is %d ms, %v; want %v", ms, got, within)
	}
}
