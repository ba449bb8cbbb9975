package catalog_test

import (
	"strconv"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// ringOf binds queues q0, q1, … with the given weights to a consistent hash exchange.
func ringOf(t *testing.T, weights ...int) *catalog.Catalog {
	t.Helper()
	c := catalog.New()
	mustApply(t, c,
		&catalog.RegisterNode{ID: "n1", Epoch: 1},
		&catalog.DeclareExchange{VHost: "/", Name: "ring", Type: catalog.ExchangeConsistentHash},
	)
	for i, w := range weights {
		name := "q" + strconv.Itoa(i)
		mustApply(t, c,
			&catalog.DeclareQueue{VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n1"}, Leader: "n1"},
			&catalog.Bind{VHost: "/", Source: "ring", Destination: name, Key: strconv.Itoa(w)},
		)
	}
	return c
}

const ringKeys = 20_000

// ringRoutes returns where each of ringKeys keys goes.
func ringRoutes(t *testing.T, c *catalog.Catalog) []string {
	t.Helper()
	routes := make([]string, ringKeys)
	v := c.View()
	for i := range routes {
		uids, err := v.Route("/", "ring", &catalog.Publication{Keys: []string{"customer." + strconv.Itoa(i)}}, nil)
		if err != nil || len(uids) != 1 {
			t.Fatalf("key %d: %v, %v; want one queue", i, uids, err)
		}
		q, _ := v.QueueByUID(uids[0])
		routes[i] = q.Name
	}
	return routes
}

// A binding that goes gives its keys away; nothing else moves, and when it is back
// everything is as it was (EX-14).
func TestRingKeepsDestinations(t *testing.T) {
	c := ringOf(t, 1, 1, 1, 1, 1)
	before := ringRoutes(t, c)
	mustApply(t, c, &catalog.Unbind{VHost: "/", Source: "ring", Destination: "q2", Key: "1"})
	without := ringRoutes(t, c)
	for i := range before {
		if (before[i] == without[i]) == (before[i] == "q2") {
			t.Fatalf("key %d went to %s and goes to %s without q2", i, before[i], without[i])
		}
	}
	mustApply(t, c, &catalog.Bind{VHost: "/", Source: "ring", Destination: "q2", Key: "1"})
	for i, q := range ringRoutes(t, c) {
		if q != before[i] {
			t.Fatalf("key %d went to %s and goes to %s with q2 again", i, before[i], q)
		}
	}
}

// A weight is the share of keys, within what the places on the ring can give (EX-14).
func TestRingFollowsWeights(t *testing.T) {
	count := map[string]int{}
	for _, q := range ringRoutes(t, ringOf(t, 10, 20, 70)) {
		count[q]++
	}
	for q, want := range map[string]int{"q0": 10, "q1": 20, "q2": 70} {
		if got := count[q] * 100 / ringKeys; got < want*3/4 || got > want*4/3 {
			t.Errorf("%s has %d %% of the keys, want about %d %%: %v", q, got, want, count)
		}
	}
}
