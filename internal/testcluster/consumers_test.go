package testcluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Operators see the consumers of the clients of all nodes: whose they are, which one is active,
// and what they hold. Those that are cancelled, closed or lost their queue are gone.
func TestConsumersOfAllNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	ctx, operator := testContext(t), openClient(t, c)
	peers := make([]peer, 2)
	for i := range peers {
		cc := named(t, c.Addrs()[i], fmt.Sprint("client ", i))
		peers[i] = peer{brokerv1.NewBrokerClient(cc), brokerv1.NewAdminClient(cc), &peers, nil}
	}
	peers[0].declare(t, "single", field("x-single-active-consumer", &brokerv1.Value{Kind: &brokerv1.Value_Boolean{Boolean: true}}))
	peers[0].declare(t, "shared")
	peers[0].publish(t, "single", 3)
	first := peers[0].open(t, &brokerv1.ConsumeOpen{Queue: "single", Tag: "first", Prefetch: 7, Priority: 2})
	for range 3 {
		first.next()
	}
	peers[1].open(t, &brokerv1.ConsumeOpen{Queue: "single", Tag: "second"})
	third := peers[1].open(t, &brokerv1.ConsumeOpen{Queue: "shared", Tag: "third", AutoAck: true, Exclusive: true})

	list := func(vhost, queue string) map[string]client.ConsumerInfo {
		t.Helper()
		listed, err := client.Collect(operator.Consumers(ctx, client.ListConsumersRequest{VHost: vhost, Queue: queue}))
		if err != nil {
			t.Fatal(listed, err)
		}
		byTag := map[string]client.ConsumerInfo{}
		for _, x := range listed {
			byTag[x.Tag] = x
		}
		return byTag
	}
	await := func(what string, done func(map[string]client.ConsumerInfo) bool) {
		t.Helper()
		testcluster.Poll(t, what, func() error {
			if all := list("", ""); !done(all) {
				return fmt.Errorf("%v", all)
			}
			return nil
		})
	}
	await("one is active, one waits, and what the first holds is known", func(all map[string]client.ConsumerInfo) bool {
		return len(all) == 3 && all["first"].Activity == "active" && all["second"].Activity == "waiting" && all["first"].Unsettled == 3
	})
	all := list("", "")
	for i, tag := range []string{"first", "second", "third"} {
		from := min(i, 1)
		conn, x := find(t, operator, fmt.Sprint("client ", from)), all[tag]
		if x.Connection != conn.ID || x.ConnectionName != conn.Name || x.Node != c.Name(from) || x.User != "guest" {
			t.Errorf("%v, of %v", x, conn)
		}
		if since := x.ConsumingSince; time.Since(since) > time.Minute || x.Buffered != 0 {
			t.Errorf("%v", x)
		}
	}
	if x := all["first"]; x.VHost != "/" || x.Queue != "single" || x.Prefetch != 7 || x.Priority != 2 || x.AutoAck || x.Exclusive {
		t.Errorf("%v", x)
	}
	if x := all["third"]; x.Queue != "shared" || !x.AutoAck || !x.Exclusive || x.Activity != "shared" || x.Unsettled != 0 {
		t.Errorf("%v", x)
	}
	for _, x := range []struct {
		vhost, queue string
		want         int
	}{{"/", "", 3}, {"", "single", 2}, {"/", "shared", 1}, {"/", "nix", 0}, {"nix", "", 0}} {
		if got := list(x.vhost, x.queue); len(got) != x.want {
			t.Errorf("vhost %q, queue %q: %v, want %d", x.vhost, x.queue, got, x.want)
		}
	}

	first.send(settlement(&brokerv1.Settlement{UpTo: 2, Outcome: brokerv1.Outcome_OUTCOME_ACK}))
	await("two are settled", func(all map[string]client.ConsumerInfo) bool { return all["first"].Unsettled == 1 })
	first.stop()
	await("the first is gone, the second active", func(all map[string]client.ConsumerInfo) bool {
		return len(all) == 2 && all["second"].Activity == "active" && all["second"].Unsettled == 1
	})
	third.send(&brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Cancel{Cancel: &brokerv1.ConsumeCancel{}}})
	await("the third is cancelled", func(all map[string]client.ConsumerInfo) bool { return len(all) == 1 })
	if _, err := peers[0].admin.DeleteQueue(ctx, &brokerv1.DeleteQueueRequest{Name: "single"}); err != nil {
		t.Fatal(err)
	}
	await("nothing is left", func(all map[string]client.ConsumerInfo) bool { return len(all) == 0 })
}
