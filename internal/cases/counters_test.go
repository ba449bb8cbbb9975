package cases

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/client"
)

// ST-2.
func TestT352(t *testing.T) {
	k := begin(t, "what a node counts as gateway is told by every node")
	var on [2]*client.Client
	for i := range on {
		c, err := client.Dial(k.ctx, client.Config{Addresses: []string{k.cluster.Nodes[i].Client}, FixedAddresses: true})
		k.must(err)
		k.Cleanup(c.Close)
		on[i] = c
	}
	count := func(name string) uint64 {
		s, err := on[1].ClusterDetails(k.ctx)
		k.must(err)
		for _, n := range s.Nodes {
			if n.ClientAddress == k.cluster.Nodes[0].Client {
				return n.Counters[name]
			}
		}
		k.Fatalf("node %s is not told of", k.cluster.Nodes[0].ID)
		return 0
	}
	for _, name := range []string{"unroutable_dropped", "unroutable_returned"} {
		before := count(name)
		_, err := on[0].PublishOne(k.ctx, client.Message{RoutingKey: k.name("nowhere"), Mandatory: name == "unroutable_returned"})
		if name == "unroutable_dropped" {
			k.must(err)
		}
		if after := count(name); after <= before {
			k.Error(fmt.Sprint(name, " was ", before, " and is ", after))
		}
	}
}
