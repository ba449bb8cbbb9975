package policy_test

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// BenchmarkPolicyChange measures what a change of a policy costs a node that leads 10,000
// queues, until it knows what is in force for each: the command in the catalog, then policies
// and configuration of all queues by the new view. The queue's entry that puts a new configuration
// in force is not part of it.
func BenchmarkPolicyChange(b *testing.B) {
	const queues = 10_000
	for name, matching := range map[string]string{"all": "^orders", "one_in_100": "00$", "none": "^bills"} {
		b.Run(name, func(b *testing.B) {
			c := catalog.New()
			index := uint64(0)
			apply := func(cmd catalog.Command) {
				index++
				if r := c.Apply(index, 0, cmd); r.Err != nil {
					b.Fatal(r.Err)
				}
			}
			apply(&catalog.RegisterNode{ID: "n", Epoch: 1})
			for i := range queues {
				apply(&catalog.DeclareQueue{
					VHost: "/", Name: fmt.Sprintf("orders.%05d", i), Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n"}, Leader: "n",
				})
			}
			var x policy.Matcher
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				apply(&catalog.PutPolicy{Policy: catalog.Policy{
					VHost: "/", Name: "p", Pattern: matching, ApplyTo: catalog.ApplyToQueues,
					Definition: message.Table{{Name: "max-length", Value: message.Int64(int64(i + 1))}},
				}})
				v := c.View()
				limited := 0
				for q := range v.Queues() {
					if x.QueueConfig(v, q).MaxLength > 0 {
						limited++
					}
				}
				if limited != map[string]int{"all": queues, "one_in_100": queues / 100, "none": 0}[name] {
					b.Fatalf("%d queues are limited", limited)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/queues, "ns/queue")
		})
	}
}
