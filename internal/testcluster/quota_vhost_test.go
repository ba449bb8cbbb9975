package testcluster_test

import (
	"context"
	"testing"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// VH-4: a stream that names a vhost before there is one counts in it, and its connection too, once it publishes there; and
// so it does after the vhost was deleted and made again.
func TestQuotaOfLaterVHost(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u"}, nil)
	ctx := testContext(t)
	u, _ := asUser(t, c.Addrs()[0], "u")
	life, end := context.WithCancel(ctx)
	defer end()
	stream, err := u.Publish(life)
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	publish := func(what string, want brokerv1.PublishResult_Result) {
		t.Helper()
		n++
		if err := stream.Send(&brokerv1.PublishRequest{Sequence: n, Message: &brokerv1.Message{Vhost: "later", RoutingKey: "q"}}); err != nil {
			t.Fatal(err)
		}
		if r, err := stream.Recv(); err != nil || r.GetResult().GetResult() != want {
			t.Fatalf("%s: %v, %v", what, r, err)
		}
	}
	for before, what := range []string{"before there is one", "deleted"} { // it keeps counting, by the name
		publish(what, brokerv1.PublishResult_RESULT_INVALID)
		if _, err := cl.PutVHost(ctx, client.VHost{Name: "later"}); err != nil {
			t.Fatal(err)
		}
		publish("without permission", brokerv1.PublishResult_RESULT_INVALID)
		wantUsed(t, cl.LimitsOfVHost, "later", map[string]float64{"max-channels": float64(before)})
		if _, err := cl.SetPermission(ctx, client.Permission{VHost: "later", User: "u", Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
			t.Fatal(err)
		}
		if _, err := cl.DeclareQueue(ctx, client.Queue{VHost: "later", Name: "q"}); err != nil {
			t.Fatal(err)
		}
		publish("there is one", brokerv1.PublishResult_RESULT_CONFIRMED)
		publish("still", brokerv1.PublishResult_RESULT_CONFIRMED)
		wantUsed(t, cl.LimitsOfVHost, "later", map[string]float64{"max-channels": 1, "max-connections": 2})
		if _, err := cl.DeleteVHost(ctx, "later"); err != nil {
			t.Fatal(err)
		}
	}
}
