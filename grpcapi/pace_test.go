package grpcapi

import (
	"context"
	"io"
	"math"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/quorate/quorate/broker/identity"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// What all unauthenticated connections send together is limited. Yet each can send at once what a login needs, and
// always has the rate that health checks need.
func TestPace(t *testing.T) {
	p, now := &pace{}, time.Unix(1_000_000, 0)
	var first allowance
	if wait, most := p.next(now, &first, freeBytes); wait != 0 || most != firstReadBytes {
		t.Errorf("after a login: %v, %d bytes", wait, most)
	}
	if wait, most := p.next(now, &first, restBytes); wait != 0 || most != yieldBytes {
		t.Errorf("while there is a rest: %v, %d bytes", wait, most)
	}
	if wait, _ := p.next(now, &first, restBytesPerSec/4); wait != time.Second/4 {
		t.Errorf("when there is none: %v", wait)
	}
	var other allowance
	if wait, _ := p.next(now, &other, freeBytes); wait != 0 {
		t.Errorf("another one waits %v to log in", wait)
	}
	for range 3 { // they would take 30 s of the rest
		var greedy allowance
		p.next(now, &greedy, freeBytes)
		p.next(now, &greedy, 10*restBytesPerSec)
	}
	if wait, _ := p.next(now, &other, ownBytesPerSec); wait != time.Second {
		t.Errorf("a health check waits %v", wait)
	}
	if wait, _ := p.next(now.Add(time.Second), &other, 0); wait != 0 {
		t.Errorf("and then %v", wait)
	}
}

// endless is a client that sends without end, whatever it receives.
type endless struct{ net.Conn }

func (*endless) Read(b []byte) (int, error) { return len(b), nil }

func (*endless) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// read reads from a connection until the context ends.
func read(ctx context.Context, x *countedConn) error {
	b := make([]byte, bufferBytes)
	for ctx.Err() == nil {
		if _, err := x.Read(b); err != nil {
			return err
		}
	}
	return nil
}

// Only a limited number of bytes is read from clients that send without end and do not log in, however many there are.
// A login ends that limit, and so does the end of the connection.
func TestEndlessClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conns, lasts = 50, 10 * time.Second
		p := &pace{}
		all := make([]*countedConn, conns)
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		for i := range all {
			life, end := context.WithCancelCause(t.Context())
			all[i] = &countedConn{Conn: &endless{}, pace: p, unauthenticated: newUnauthenticated(nil), life: life, end: end}
			go func() { _ = read(ctx, all[i]) }()
		}
		<-ctx.Done()
		synctest.Wait()
		if n := p.holding.Load(); n != conns {
			t.Errorf("%d connections are held back, want all %d", n, conns)
		}
		for _, x := range all {
			x.end(io.EOF)
		}
		synctest.Wait()
		held := time.Duration(p.held.Load())
		if n := p.holding.Load(); n != 0 || held > conns*lasts || held < conns*lasts/2 || p.holds.Load() < conns {
			t.Errorf("%d are held back at the end, and were for %v of %v, %d times", n, held, conns*lasts, p.holds.Load())
		}
		var sum uint64
		for _, x := range all {
			sum += x.received.Load()
		}
		seconds := int(lasts / time.Second)
		most := conns*(freeBytes+ownBytesPerSec*seconds+2*yieldBytes) + restBytes + restBytesPerSec*seconds
		least := conns*freeBytes + restBytesPerSec*seconds/2
		if sum > uint64(most) || sum < uint64(least) {
			t.Errorf("%d bytes were read in %v, want %d to %d", sum, lasts, least, most)
		}
		x := all[0]
		x.life, x.end = context.WithCancelCause(t.Context())
		x.unauthenticated.admit()
		began, before := time.Now(), x.received.Load()
		b := make([]byte, bufferBytes)
		for range 10 {
			_, _ = x.Read(b)
		}
		if n := x.received.Load() - before; n != 10*bufferBytes || time.Since(began) > 10*restTime {
			t.Errorf("%d bytes were read after the login, in %v", n, time.Since(began))
		}
		if time.Duration(p.held.Load()) != held {
			t.Error("a connection that has logged in counts as held back")
		}
	})
}

// A refused call costs more of the allowance than its own bytes.
func TestRefusedCallsArePaced(t *testing.T) {
	s := New(Config{Broker: servingBroker(t)})
	ctx, conn := onConnection(t.Context(), s)
	conn.Conn = &endless{}
	for range 3 {
		with, err := s.early(ctx, &tap.Info{FullMethodName: brokerv1.Broker_PublishOne_FullMethodName})
		if err != nil || status.Code(toStatus(refusedEarly(with))) != codes.Unauthenticated {
			t.Fatalf("%v, %v", err, refusedEarly(with))
		}
	}
	if conn.unpaced != 3*refusedBytes {
		t.Errorf("three calls count %d bytes", conn.unpaced)
	}
}

// If a call is refused by its headers, no more of it is read than its window held, whatever its client would send.
func TestRefusedBody(t *testing.T) {
	s := make(chan *Server, 1)
	cc := serveWith(t, func(c *Config) { c.Broker = servingBroker(t) }, func(x *Server) { s <- x })
	b := (<-s).b
	ctx := testContext(t)
	const calls = 3
	for range calls { // one after the other, over one connection
		_, err := brokerv1.NewBrokerClient(cc).PublishOne(ctx, &brokerv1.PublishOneRequest{Message: &brokerv1.Message{Body: make([]byte, 1<<20)}})
		if status.Code(err) != codes.Unauthenticated {
			t.Fatal(err)
		}
	}
	who, err := b.Logins.Login(ctx, "guest", "guest", netip.IPv6Loopback())
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := b.Connections.ClientConnections(identity.WithIdentity(ctx, who), "", "")
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	if most := uint64(calls * (windowBytes + maxHeaderBytes/16)); all[0].Received > most {
		t.Errorf("%d bytes were read of %d refused calls, want at most %d", all[0].Received, calls, most)
	}
}

// portions is a call whose client sends exactly what it is asked for.
type portions struct {
	rawStream
	asked []int
	fails error // nil: it sends all
}

func (p *portions) Read(n int) (mem.BufferSlice, error) {
	p.asked = append(p.asked, n)
	if p.fails != nil {
		return nil, p.fails
	}
	var all mem.BufferSlice
	for ; n > 0; n -= min(n, yieldBytes) {
		all = append(all, mem.SliceBuffer(make([]byte, min(n, yieldBytes))))
	}
	return all, nil
}

// A large message is requested in portions, and takes no memory before the first one has come.
func TestPortions(t *testing.T) {
	const n = 5*portionBytes/2 + 1
	s := New(Config{Broker: servingBroker(t)})
	raw := &portions{}
	r := &receiver{s: s, conn: &countedConn{}, raw: raw, most: n}
	if err := r.inPortions(n, &brokerv1.PublishRequest{}); status.Code(err) != codes.Internal { // zeros are no message
		t.Error(err)
	}
	if len(raw.asked) != 3 || raw.asked[0] != portionBytes || raw.asked[2] != n-2*portionBytes {
		t.Errorf("its client was asked for %d", raw.asked)
	}
	raw.fails = io.EOF
	if err := r.inPortions(n, &brokerv1.PublishRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("a message that is cut short: %v", err)
	}
	least := uint64(math.MaxUint64) // what runs beside the test allocates, too
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = r.inPortions(n, &brokerv1.PublishRequest{})
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > n/8 {
		t.Errorf("a message of which nothing comes takes %d bytes", least)
	}
}
