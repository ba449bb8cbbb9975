package grpcapi

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/testnode"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Every method of the APIs has a rule, and every rule has a method.
func TestRules(t *testing.T) {
	s := New(Config{Broker: brokerOf(t, testnode.Waiting(t), false), Reflection: true})
	left := rules()
	for name, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			method := "/" + name + "/" + m.Name
			if _, known := left[method]; known == isOpen(method) {
				t.Errorf("%s: has a rule %v, is open %v; want one of both", method, known, isOpen(method))
			}
			delete(left, method)
		}
	}
	for method := range left {
		t.Errorf("there is a rule for %s, which is not served", method)
	}
	testActs(t)
	s.serves = func() error { return nil }
	ctx, conn := onConnection(t.Context(), s)
	ctx, leave, err := s.admit(ctx, "/quorate.broker.v1.Admin/Unheard")
	if err == nil {
		err = s.permit(ctx, "/quorate.broker.v1.Admin/Unheard", nil)
		leave()
	}
	if e, ok := errors.AsType[*failure.Error](err); !ok || e.Class != failure.NotAllowed {
		t.Errorf("a method without rule: %v", err)
	}
	if conn.calls != 0 {
		t.Errorf("%d calls have not left that were refused", conn.calls)
	}
}

// testActs checks that the audit has every method that changes something, and no method that only
// reads.
func testActs(t *testing.T) {
	t.Helper()
	quiet := map[string]bool{ // messages and settlements of clients are no changes that an operator looks for
		"Publish": true, "PublishOne": true, "Consume": true, "Get": true, "Settle": true, "SettleAndPublish": true, "Connect": true,
		"ClusterStatus": true, "WhoAmI": true, "ServerReflectionInfo": true, "Peek": true, "ExportDefinitions": true, "TailAudit": true, "TailLog": true,
		"FollowJob": true, // its calls to copy and restore are audited
	}
	audited := acts()
	for method := range rules() {
		name := method[strings.LastIndex(method, "/")+1:]
		reads := quiet[name]
		for _, verb := range []string{"List", "Get", "Watch", "Explain", "Plan"} {
			reads = reads || strings.HasPrefix(name, verb)
		}
		if _, is := audited[method]; is == reads {
			t.Errorf("%s is audited by the audit: %v, reads only: %v", method, is, reads)
		}
		delete(audited, method)
	}
	for method := range audited {
		t.Errorf("there is an act for %s, which has no rule", method)
	}
}

// A call that changes nothing costs the audit no allocation.
func TestNoActAllocatesNothing(t *testing.T) {
	s := New(Config{Broker: brokerOf(t, testnode.Waiting(t), false)})
	ctx, req := t.Context(), &brokerv1.PublishOneRequest{}
	if n := testing.AllocsPerRun(10_000, func() {
		if _, changes := s.actOf(ctx, brokerv1.Broker_PublishOne_FullMethodName, req); changes {
			t.Error("a publish is audited by the audit")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// onConnection returns the context of calls over a connection.
func onConnection(ctx context.Context, s *Server) (context.Context, *countedConn) {
	conn := &countedConn{c: s.b.Connections.Connect(), unauthenticated: newUnauthenticated(nil)}
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: countedInfo{conn: conn}}), conn
}

// A malformed credential is refused as such, whatever the method.
func TestBadCredentials(t *testing.T) {
	s := New(Config{Broker: servingBroker(t)})
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, given := range [][]string{
		nil,
		{""},
		{"Basic"},
		{"Basic %%%"},
		{basic("nocolon")},
		{"Digest x"},
		{basic("a:b"), basic("a:b")},
		{basic("a:" + strings.Repeat("b", maxCredentialBytes))},
	} {
		md := grpcmetadata.MD{"authorization": given}
		ctx, _ := onConnection(grpcmetadata.NewIncomingContext(t.Context(), md), s)
		if _, err := s.enterUser(ctx); status.Code(toStatus(err)) != codes.Unauthenticated {
			t.Errorf("%.40q: %v", given, err)
		}
		if _, _, err := s.admit(ctx, "/grpc.health.v1.Health/Check"); err != nil {
			t.Errorf("health: %v", err)
		}
	}
}

func TestCaller(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, "::1": true, "127.8.8.8": true, "10.0.0.1": false, "fe80::1": false} {
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 1}})
		if _, from := caller(ctx); from.Unmap().IsLoopback() != want {
			t.Errorf("%s counts as loopback: %v", address, !want)
		}
	}
	if _, from := caller(t.Context()); from.IsLoopback() {
		t.Error("an unknown address counts as loopback")
	}
}
