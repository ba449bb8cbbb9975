package testcluster_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// VH-14: rates are over the time that goes by, whatever happens to the wall clocks of the nodes' machines.
func TestQuotaWithSteppedClocks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c, clocks := testcluster.StartClocks(t, 3)
	cl := withQuotas(t, c, []string{"u"}, nil)
	ctx := testContext(t)
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	limit := int64(rate)
	if err := cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "u", Limits: client.UserLimits{MaxMessageRate: &limit}}); err != nil {
		t.Fatal(err)
	}
	all := []*publisher{overGRPC(t, c.Addrs()[0], "u", "q"), overAMQP(t, c.AMQP(1), "u", "q"), overGRPC(t, c.Addrs()[2], "u", "q")}
	confirmed := func() (n int64) {
		for _, p := range all {
			n += p.confirmed.Load()
		}
		return n
	}
	for _, x := range []struct {
		what string
		node int
		by   time.Duration
	}{{"right", 0, 0}, {"an hour ahead", 0, time.Hour}, {"an hour behind", 0, -2 * time.Hour}, {"two of them", 1, time.Hour}, {"all of them", 2, -time.Hour}} {
		clocks[x.node].Step(x.by)
		keepsRate(t, x.what, 0.8, 1.2, confirmed)
	}
	for _, p := range all {
		p.end()
	}
}
