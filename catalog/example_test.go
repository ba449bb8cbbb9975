package catalog_test

import (
	"fmt"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// A queue is declared and bound; the view taken afterwards routes to it.
func Example() {
	c := catalog.New()
	for i, cmd := range []catalog.Command{
		&catalog.RegisterNode{ID: "n1", Address: "10.0.0.1:7000", Epoch: 1},
		&catalog.DeclareQueue{
			VHost: catalog.DefaultVHost, Name: "invoices", Type: catalog.QueueQuorum, Durable: true,
			Members: []id.NodeID{"n1"}, Leader: "n1",
		},
		&catalog.Bind{VHost: catalog.DefaultVHost, Source: "amq.topic", Destination: "invoices", Key: "order.*.paid"},
	} {
		if r := c.Apply(uint64(i+1), 0, cmd); r.Err != nil {
			fmt.Println(r.Err)
		}
	}
	v := c.View()
	for _, exchange := range []string{"amq.topic", "orders"} {
		uids, err := v.Route(catalog.DefaultVHost, exchange, &catalog.Publication{Keys: []string{"order.77.paid"}}, nil)
		fmt.Println(uids, err)
	}
	// Output:
	// [q1024] <nil>
	// [] NOT_FOUND: exchange "orders" in vhost "/": does not exist; declare it first
}
