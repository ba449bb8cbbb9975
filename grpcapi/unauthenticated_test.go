package grpcapi

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/gate"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// memory returns how many bytes of heap and stacks this process uses.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) // far below
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// A connection that has not logged in costs what docs/security.md gives.
func TestUnauthenticatedCost(t *testing.T) {
	for _, x := range []struct {
		what, says string
		most       int64
	}{
		{"nothing", "", 20 << 10},
		{"half a greeting", preface[:10], 20 << 10},
		{"how HTTP/2 begins", preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00", 128 << 10},
	} {
		g := gate.New(gate.Config{LoginTimeout: time.Hour, Own: true})
		cc := serve(t, func(c *Config) {
			c.Gate = g
			c.Broker = servingBroker(t)
		})
		const n = 200
		all := make([]net.Conn, n)
		before := memory()
		for i := range all {
			var err error
			if all[i], err = new(net.Dialer).DialContext(t.Context(), "tcp", cc.Target()); err != nil {
				t.Fatal(err)
			}
			if _, err = all[i].Write([]byte(x.says)); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "they do not come in", func() bool { return g.Stats().Unauthenticated == n })
		if strings.HasPrefix(x.says, preface) {
			for _, nc := range all { // gRPC has taken them in once it answers
				if _, err := nc.Read(make([]byte, 9)); err != nil {
					t.Fatal(err)
				}
			}
		}
		each := (memory() - before) / n
		t.Logf("who says %s costs %d bytes", x.what, each)
		if each > x.most {
			t.Errorf("who says %s costs %d bytes, want at most %d", x.what, each, x.most)
		}
		for _, nc := range all {
			_ = nc.Close()
		}
		until(t, "they do not go", func() bool { return g.Stats().Connections == 0 })
	}
}

// While the credentials of one call are being checked, the next call of an unauthenticated client waits. Once they were
// found good, all calls continue. Health is answered before and after.
func TestOneCheckAtATime(t *testing.T) {
	s := New(Config{Broker: servingBroker(t)})
	ctx, conn := onConnection(t.Context(), s)
	conn.life, conn.end = context.WithCancelCause(t.Context())
	first, err := s.awaitCheck(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := s.awaitCheck(ctx, conn)
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatal("the second one does not wait: ", err)
	default:
	}
	checked(first)
	if err := <-second; err != nil {
		t.Error(err)
	}
	third := make(chan error, 1)
	go func() {
		_, err := s.awaitCheck(ctx, conn)
		third <- err
	}()
	conn.unauthenticated.admit()
	if err := <-third; err != nil {
		t.Error(err)
	}
	conn.end(&failure.Error{Class: failure.ConnectionForced})
	other := &countedConn{unauthenticated: newUnauthenticated(nil), life: conn.life}
	other.unauthenticated.checks <- struct{}{}
	if _, err := s.awaitCheck(ctx, other); status.Code(toStatus(err)) != codes.Unavailable {
		t.Errorf("a connection that ends: %v", err)
	}
}

// Refused calls leave nothing behind, however long their callers would have waited.
func TestRefusedCallsLeaveNothing(t *testing.T) {
	cc := serve(t, func(c *Config) {
		c.Broker = servingBroker(t)
		c.Gate = gate.New(gate.Config{LoginTimeout: time.Hour, Own: true}) // refusing so many takes time
	})
	long, cancel := context.WithTimeout(t.Context(), 100*24*time.Hour)
	defer cancel()
	call := func(n int) {
		for range n {
			_, err := brokerv1.NewBrokerClient(cc).PublishOne(long, &brokerv1.PublishOneRequest{})
			if status.Code(err) != codes.Unauthenticated {
				t.Fatal(err)
			}
		}
	}
	call(500) // what calls allocate only once
	const n = 5000
	before := memory()
	call(n)
	// What runs beside the test has memory too, for a moment.
	until(t, "a refused call leaves more than 100 bytes", func() bool { return (memory()-before)/n <= 100 })
}

// Calls that do not look like those of a user are refused whatever they carry. Of health calls, only those with few
// bytes are answered.
func TestUnauthenticatedCalls(t *testing.T) {
	cc := serve(t, func(c *Config) { c.Broker = servingBroker(t) })
	ctx := testContext(t)
	large := strings.Repeat("x", maxOpenBytes)
	if _, err := healthv1.NewHealthClient(cc).Check(ctx, &healthv1.HealthCheckRequest{Service: large}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a large request for health: %v", err)
	}
	for _, md := range []grpcmetadata.MD{nil, grpcmetadata.Pairs("authorization", "Digest x"), grpcmetadata.Pairs("authorization", "Basic x", "authorization", "Basic x")} {
		_, err := brokerv1.NewBrokerClient(cc).PublishOne(grpcmetadata.NewOutgoingContext(ctx, md), &brokerv1.PublishOneRequest{
			Message: &brokerv1.Message{Body: make([]byte, 1<<20)},
		})
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("%v: %v", md, err)
		}
	}
	plain, err := grpc.NewClient(cc.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	if _, err := healthv1.NewHealthClient(plain).Check(ctx, &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
}
