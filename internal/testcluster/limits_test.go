package testcluster_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// basic is the login of any user.
type basic string

func (b basic) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(b))}, nil
}

func (basic) RequireTransportSecurity() bool { return false }

// asUser connects a user to one node; end closes the connection.
func asUser(t *testing.T, addr, user string) (p peer, end func()) {
	t.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(basic(user+":secret")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() }) // a second time is refused
	return peer{brokerv1.NewBrokerClient(cc), brokerv1.NewAdminClient(cc), nil, brokerv1.NewTransactionsClient(cc)}, func() { _ = cc.Close() }
}

// VH-4: limits count over all nodes, from the first call that a connection carries until it
// ends.
func TestLimits(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	cl, ctx := openClient(t, c), testContext(t)
	two, one := int64(2), int64(1)
	for _, u := range []string{"limited", "free"} {
		if _, err := cl.PutUser(ctx, client.User{Name: u, Password: "secret"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []string{"full", "wide"} {
		if _, err := cl.PutVHost(ctx, client.VHost{Name: h}); err != nil {
			t.Fatal(err)
		}
		for _, u := range []string{"limited", "free"} {
			if _, err := cl.SetPermission(ctx, client.Permission{VHost: h, User: u, Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	get := func(p peer, vhost string) error {
		_, err := p.Get(ctx, &brokerv1.GetRequest{Vhost: vhost, Queue: "nix"})
		return err
	}
	may := func(what string, p peer, vhost string) {
		t.Helper()
		testcluster.Poll(t, what, func() error {
			err := get(p, vhost)
			if err != nil && strings.Contains(err.Error(), `queue "nix"`) {
				return nil
			}
			return fmt.Errorf("it is answered %w", err)
		})
	}
	if err := cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "limited", Limits: client.UserLimits{MaxConnections: &two, MaxChannels: &one}}); err != nil {
		t.Fatal(err)
	}
	first, end := asUser(t, c.Addrs()[0], "limited")
	second, _ := asUser(t, c.Addrs()[1], "limited")
	third, _ := asUser(t, c.Addrs()[2], "limited")
	may("a first connection", first, "wide")
	may("a second one", second, "wide")
	may("a second one, again", second, "full")
	for range 2 {
		refused(t, get(third, "wide"), codes.PermissionDenied, "NOT_ALLOWED", `user "limited": max-connections = 2`)
	}
	other, _ := asUser(t, c.Addrs()[2], "free")
	may("another user", other, "wide")
	end()
	may("one in its place", third, "wide")

	// Channels are streams.
	stream := func(p peer) (context.CancelFunc, error) {
		life, cancel := context.WithCancel(ctx)
		s, err := p.Publish(life)
		if err == nil {
			err = s.Send(&brokerv1.PublishRequest{Sequence: 1, Message: &brokerv1.Message{Vhost: "wide", RoutingKey: "nix"}})
		}
		if err == nil {
			_, err = s.Recv()
		}
		return cancel, err
	}
	closeStream, err := stream(second)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []peer{second, third} {
		cancel, err := stream(p)
		cancel()
		refused(t, err, codes.PermissionDenied, "NOT_ALLOWED", "max-channels = 1")
	}
	closeStream()
	testcluster.Poll(t, "a stream in its place", func() error {
		cancel, err := stream(third)
		cancel()
		return err
	})

	// A vhost counts the connections of all users; more than one vhost may count one.
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "full", Limits: client.VHostLimits{MaxConnections: &one}}); err != nil {
		t.Fatal(err)
	}
	may("the one that was there", second, "full")
	refused(t, get(other, "full"), codes.PermissionDenied, "NOT_ALLOWED", `vhost "full": max-connections = 1`)
	m := &brokerv1.PublishRequest{Sequence: 1, Message: &brokerv1.Message{Vhost: "full", RoutingKey: "nix"}}
	results, err := publishRequests(t, other, m)
	if err != nil || len(results) != 1 || results[0].GetResult().GetError().GetClass() != "NOT_ALLOWED" {
		t.Errorf("published in a vhost that is full: %v, %v", results, err)
	}
	refused(t, consumeRequests(t, other, open(&brokerv1.ConsumeOpen{Vhost: "full", Queue: "nix"})), codes.PermissionDenied, "NOT_ALLOWED", "max-connections")
	may("another vhost", other, "wide")
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "full", Limits: client.VHostLimits{}}); err != nil {
		t.Fatal(err)
	}
	may("without limit", other, "full")
}
