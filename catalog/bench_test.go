package catalog_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// filled has n queues, each bound once to a direct, a topic, a headers and a modulus hash
// exchange, up to 1,000 to a consistent hash exchange, and up to 10 to a fanout exchange.
func filled(b *testing.B, n int) *catalog.Catalog {
	b.Helper()
	c := catalog.New()
	index := uint64(0)
	apply := func(cmd catalog.Command) {
		index++
		if r := c.Apply(index, 0, cmd); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	apply(&catalog.RegisterNode{ID: "n1", Epoch: 1})
	apply(&catalog.DeclareExchange{VHost: "/", Name: "one", Type: catalog.ExchangeFanout})
	apply(&catalog.DeclareExchange{VHost: "/", Name: "modulus", Type: catalog.ExchangeModulusHash})
	apply(&catalog.DeclareExchange{VHost: "/", Name: "ring", Type: catalog.ExchangeConsistentHash})
	for i := range n {
		name := queueName(i)
		apply(&catalog.DeclareQueue{
			VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n1"}, Leader: "n1",
		})
		apply(&catalog.Bind{VHost: "/", Source: "amq.direct", Destination: name, Key: "key." + name})
		pattern := "orders." + strconv.Itoa(i%100) + "." + name
		switch i % 5 {
		case 3:
			pattern = "orders.*." + name
		case 4:
			pattern = "orders.#." + name
		}
		apply(&catalog.Bind{VHost: "/", Source: "amq.topic", Destination: name, Key: pattern})
		apply(&catalog.Bind{VHost: "/", Source: "amq.headers", Destination: name, Arguments: message.Table{
			{Name: "kind", Value: message.String("order")},
			{Name: "customer", Value: message.Int64(int64(i))},
		}})
		apply(&catalog.Bind{VHost: "/", Source: "modulus", Destination: name})
		if i < 1000 {
			apply(&catalog.Bind{VHost: "/", Source: "ring", Destination: name, Key: "1"})
		}
		if i < 10 {
			apply(&catalog.Bind{VHost: "/", Source: "one", Destination: name})
		}
	}
	return c
}

func queueName(i int) string { return fmt.Sprintf("queue-%06d", i) }

func BenchmarkRoute(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000} {
		v := filled(b, n).View()
		last := queueName(n - 1)
		headers := message.Table{
			{Name: "kind", Value: message.String("order")},
			{Name: "customer", Value: message.Int32(5)},
		}
		for _, c := range []struct {
			name, exchange, key string
			headers             message.Table
			want                int
		}{
			{"default", "", last, nil, 1},
			{"direct", "amq.direct", "key." + last, nil, 1},
			{"topic", "amq.topic", "orders.99." + last, nil, 1},
			{"fanout-to-10", "one", "", nil, 10},
			{"headers", "amq.headers", "", headers, 1},
			{"modulus-hash", "modulus", "key." + last, nil, 1},
			{"consistent-hash-of-at-most-1000", "ring", "key." + last, nil, 1},
		} {
			b.Run(fmt.Sprintf("%s/bindings=%d", c.name, n), func(b *testing.B) {
				p := catalog.Publication{Keys: []string{c.key}, Headers: c.headers}
				dst := make([]id.QueueUID, 0, 16)
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if dst, err = v.Route("/", c.exchange, &p, dst[:0]); err != nil || len(dst) != c.want {
						b.Fatalf("%d queues, error %v; want %d", len(dst), err, c.want)
					}
				}
			})
		}
	}
}

// The cost of one change must not grow with the catalog.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("declare-bind-delete/queues=%d", n), func(b *testing.B) {
			c := filled(b, n)
			index := c.View().Index()
			declare := &catalog.DeclareQueue{
				VHost: "/", Name: "new", Type: catalog.QueueQuorum, Members: []id.NodeID{"n1"}, Leader: "n1",
			}
			bind := &catalog.Bind{VHost: "/", Source: "amq.topic", Destination: "new", Key: "orders.#"}
			remove := &catalog.DeleteQueue{VHost: "/", Name: "new"}
			b.ReportAllocs()
			for b.Loop() {
				for _, cmd := range []catalog.Command{declare, bind, remove} {
					index++
					if r := c.Apply(index, 0, cmd); r.Err != nil {
						b.Fatal(r.Err)
					}
				}
			}
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	c := filled(b, 10_000)
	buf := c.AppendSnapshot(nil)
	b.SetBytes(int64(len(buf)))
	b.Run("append", func(b *testing.B) {
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			buf = c.AppendSnapshot(buf[:0])
		}
	})
	b.Run("restore", func(b *testing.B) {
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			if err := catalog.New().Restore(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
