package testcluster_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/issuer"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// startTokens starts a node and the issuer of the tokens that it takes.
func startTokens(t *testing.T) (*testcluster.Cluster, *issuer.Issuer) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a node")
	}
	i := issuer.Start(t)
	i.Rotate("k", "RS256", false)
	return testcluster.StartTokens(t, 1, i.URL()), i
}

func tokenOf(i *issuer.Issuer, user, scopes string, end time.Time) string {
	return i.Sign("k", "RS256", i.Claims(user, "quorate", map[string]any{"scope": scopes, "exp": end.Unix()}))
}

func byToken(text string) func(*client.Config) { return func(c *client.Config) { c.Token = text } }

// ID-2, ID-4: over gRPC the scopes of a token are the rights of who sends it, and its tags; there is
// no user of the catalog, and none is made.
func TestTokenScopes(t *testing.T) {
	t.Parallel()
	c, i := startTokens(t)
	root := openClient(t, c)
	ctx, hour := testContext(t), time.Now().Add(time.Hour)
	for _, name := range []string{"in", "out"} {
		if _, err := root.DeclareQueue(ctx, client.Queue{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user, scopes string) *client.Client {
		return openClient(t, c, byToken(tokenOf(i, user, scopes, hour)))
	}
	publish := func(c *client.Client, exchange, key string) error {
		_, err := c.PublishOne(ctx, client.Message{Exchange: exchange, RoutingKey: key})
		return err
	}
	worker := as("worker", "quorate.read:%2F/in quorate.write:%2F/amq.default quorate.write:%2F/amq.topic/eu.* quorate.configure:other/*")
	who, err := worker.WhoAmI(ctx)
	if err != nil || who.User != "worker" || len(who.Tags) != 0 || !who.Expires.Equal(hour.Truncate(time.Second)) {
		t.Errorf("%v, %v", who, err)
	}
	get := func(c *client.Client, queue string) error {
		_, err := c.Get(ctx, client.GetRequest{Queue: queue, AutoAck: true})
		return err
	}
	declare := func(c *client.Client, vhost string) error {
		_, err := c.DeclareQueue(ctx, client.Queue{VHost: vhost, Name: "new"})
		return err
	}
	for what, err := range map[string]error{
		"get": get(worker, "in"), "publish": publish(worker, "", "in"), "a key": publish(worker, "amq.topic", "eu.de"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"get": get(worker, "out"), "publish": publish(worker, "amq.fanout", ""), "a key": publish(worker, "amq.topic", "us"),
		"declare": declare(worker, "/"), "policies": func() error { _, err := worker.DeletePolicy(ctx, client.PolicyRef{VHost: "/", Name: "p"}); return err }(),
		"users": func() error { _, err := client.Collect(worker.Users(ctx)); return err }(),
		"mint":  func() error { _, err := worker.MintToken(ctx, time.Minute); return err }(),
	} {
		refusal(t, what, err, "worker")
	}
	queues, err := client.Collect(worker.Queues(ctx, client.ListQueuesRequest{VHost: "/"}))
	if err != nil || len(queues) != 1 || queues[0].Name != "in" {
		t.Errorf("sees %v, %v", queues, err)
	}

	admin := as("chief", "quorate.tag:administrator quorate.tag:policymaker quorate.read:*/nothing")
	if _, err := admin.PutVHost(ctx, client.VHost{Name: "made"}); err != nil {
		t.Error(err)
	}
	if _, err := admin.PutPolicy(ctx, client.Policy{Name: "p", Pattern: "none", Definition: client.Table{"max-length": 1}}); err != nil {
		t.Error(err)
	}
	users, err := client.Collect(root.Users(ctx))
	if err != nil || len(users) != 1 {
		t.Errorf("%v, %v", users, err)
	}
	permissions, err := client.Collect(root.Permissions(ctx, client.ListPermissionsRequest{VHost: "made"}))
	if err != nil || len(permissions) != 0 {
		t.Errorf("%v, %v", permissions, err)
	}
	// As a password it is taken too.
	basic := openClient(t, c, func(c *client.Config) {
		c.Username, c.Password = "x", tokenOf(i, "worker", "quorate.read:%2F/in", hour)
	})
	if who, err := basic.WhoAmI(ctx); err != nil || who.User != "worker" {
		t.Errorf("%v, %v", who, err)
	}
}

// Names that mean something here cannot be had from elsewhere.
func TestTokenNames(t *testing.T) {
	t.Parallel()
	c, i := startTokens(t)
	ctx := testContext(t)
	for _, name := range []string{"host:node-0", "node:node-0", "", "a\tb"} {
		err := loginError(ctx, t, c, byToken(tokenOf(i, name, "quorate.tag:administrator", time.Now().Add(time.Hour))))
		var e *client.Error
		if !errors.As(err, &e) || e.Code != codes.Unauthenticated {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// authorized returns a connection to the first node, and a context with the header.
func authorized(t *testing.T, c *testcluster.Cluster, header string) (*grpc.ClientConn, context.Context) {
	t.Helper()
	cc, err := grpc.NewClient(c.Addrs()[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc, grpcmetadata.AppendToOutgoingContext(testContext(t), "authorization", header)
}

// ID-5: a stream that runs ends with the token, and its client learns when that was; calls are
// refused from then on.
func TestTokenEndsStreams(t *testing.T) {
	t.Parallel()
	c, i := startTokens(t)
	root := openClient(t, c)
	if _, err := root.DeclareQueue(testContext(t), client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	for lasts := 2 * time.Second; lasts < testTimeout/2; lasts *= 2 { // it takes a time to open one
		end := time.Now().Add(lasts).Truncate(time.Second)
		cc, ctx := authorized(t, c, "Bearer "+tokenOf(i, "ann", "quorate.read:*/*", end))
		consume, err := brokerv1.NewBrokerClient(cc).Consume(ctx)
		if err != nil {
			t.Fatal(err)
		}
		open := &brokerv1.ConsumeRequest_Open{Open: &brokerv1.ConsumeOpen{Queue: "q"}}
		_ = consume.Send(&brokerv1.ConsumeRequest{Kind: open}) // Recv returns what is wrong
		if first, err := consume.Recv(); err != nil || first.GetOpened() == nil {
			continue
		}
		publish, err := brokerv1.NewBrokerClient(cc).Publish(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for what, recv := range map[string]func() error{
			"consume": func() error { _, err := consume.Recv(); return err },
			"publish": func() error { _, err := publish.Recv(); return err },
		} {
			err := recv()
			if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), end.UTC().Format(time.RFC3339)) {
				t.Errorf("%s: %v, want that the token ended at %v", what, err, end.UTC())
			}
		}
		if time.Now().Before(end) {
			t.Error("the streams ended too early")
		}
		_, err = brokerv1.NewAccessClient(cc).WhoAmI(ctx, &brokerv1.WhoAmIRequest{})
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "expired") {
			t.Errorf("a call: %v", err)
		}
		return
	}
	t.Fatal("no stream in time")
}

// A header is bounded before anything of it is read.
func TestHugeTokenHeader(t *testing.T) {
	t.Parallel()
	c, i := startTokens(t)
	text := tokenOf(i, "ann", "", time.Now().Add(time.Hour))
	for _, header := range []string{
		"Bearer " + text + strings.Repeat("x", 64<<10),
		"Bearer eyJhbGciOiJSUzI1NiJ9." + strings.Repeat("e", 20<<10) + ".x",
		"Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+strings.Repeat("e", 17<<10))),
	} {
		cc, ctx := authorized(t, c, header)
		_, err := brokerv1.NewAccessClient(cc).WhoAmI(ctx, &brokerv1.WhoAmIRequest{})
		if code := status.Code(err); code != codes.Unauthenticated && (code != codes.Internal || !strings.Contains(err.Error(), "header list size")) {
			t.Errorf("%d bytes: %v", len(header), err) // what is above the bound of HTTP/2 is not even sent
		}
	}
}

// While the issuer does not answer, no token is called wrong, and users log in.
func TestTokensWithoutIssuer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	i := issuer.Start(t)
	i.Rotate("k", "RS256", false)
	c := testcluster.StartTokens(t, 1, issuer.Unreachable(t))
	openClient(t, c)
	cc, ctx := authorized(t, c, "Bearer "+tokenOf(i, "ann", "", time.Now().Add(time.Hour)))
	_, err := brokerv1.NewAccessClient(cc).WhoAmI(ctx, &brokerv1.WhoAmIRequest{})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "cannot check credentials now") {
		t.Error(err)
	}
	if n := c.Broker(0).Logins.LoginCounts()["oauth2"]; n.Unavailable == 0 || n.Accepted+n.Refused > 0 {
		t.Errorf("%+v", n)
	}
}
