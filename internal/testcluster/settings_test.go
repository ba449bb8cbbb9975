package testcluster_test

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Q-14, PO-8: once a queue says that nothing is pending, what its policy gives is in force.
func TestSettingsPending(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	p := dial(t, c.Addrs()[0])
	cl, ctx := openClient(t, c), testContext(t)
	p.declare(t, "q", number("x-delivery-limit", -5)) // stored in another form: as -1
	settled := func(policy string) {
		t.Helper()
		testcluster.Poll(t, "the settings are in force", func() error {
			r, err := p.admin.GetQueue(ctx, &brokerv1.GetQueueRequest{Name: "q"})
			if q := r.GetQueue(); err == nil && (q.GetPolicy() != policy || q.GetStats() == nil || q.GetSettingsPending()) {
				err = fmt.Errorf("%v", q)
			}
			return err
		})
	}
	settled("")
	for i, limit := range []int64{3, 2, 1} {
		name := fmt.Sprint("p", i)
		if _, err := cl.PutPolicy(ctx, client.Policy{
			Name: name, Pattern: "^q$", Priority: int64(i), Definition: client.Table{"max-length": limit},
		}); err != nil {
			t.Fatal(err)
		}
		settled(name)
		p.publish(t, "q", 5)
		if n := p.stats(t, "q").GetStats().GetMessages(); n != uint64(limit) {
			t.Errorf("%d messages, want %d", n, limit)
		}
	}
}
