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

	"github.com/quorate/quorate/broker"
)

// Every method of the APIs has a rule, and every rule a method.
func TestRules(t *testing.T) {
	s := New(Config{Broker: broker.New(broker.Config{}), Reflection: true})
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
	s.serves = func() error { return nil }
	ctx, conn := onConnection(t.Context(), s)
	ctx, leave, err := s.admit(ctx, "/quorate.broker.v1.Admin/Unheard")
	if err == nil {
		err = s.permit(ctx, "/quorate.broker.v1.Admin/Unheard", nil)
		leave()
	}
	if e, ok := errors.AsType[*broker.Error](err); !ok || e.Class != broker.NotAllowed {
		t.Errorf("a method without rule: %v", err)
	}
	if conn.calls != 0 {
		t.Errorf("%d calls have not left that were refused", conn.calls)
	}
}

// onConnection returns a context of calls by a connection.
func onConnection(ctx context.Context, s *Server) (context.Context, *countedConn) {
	conn := &countedConn{c: s.b.Connect(), stranger: newStranger(nil)}
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: countedInfo{conn: conn}}), conn
}

// What is no credential is refused as such, whatever the method.
func TestBadCredentials(t *testing.T) {
	s := New(Config{Broker: broker.New(broker.Config{Authenticate: true})})
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
		for method := range s.rules {
			if _, err := s.enterUser(ctx); status.Code(toStatus(err)) != codes.Unauthenticated {
				t.Errorf("%s with %.40q: %v", method, given, err)
			}
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
