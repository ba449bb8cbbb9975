package amqp_test

import (
	"crypto/rand"
	"fmt"
	"sync"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/testcluster"
)

// BenchmarkDeclares declares quorum queues in a cluster of three nodes, over one channel or several of
// one connection. Each channel declares one queue after the other. The connection's node leads the
// catalog, or another one does.
func BenchmarkDeclares(b *testing.B) {
	c := testcluster.Start(b, 3)
	s, err := c.Cluster(0).Status(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	leads := c.Index(string(s.CatalogLeader))
	for _, channels := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("leader/", channels), func(b *testing.B) { declares(b, c.AMQP(leads), channels) })
		b.Run(fmt.Sprint("other/", channels), func(b *testing.B) { declares(b, c.AMQP((leads+1)%3), channels) })
	}
}

func declares(b *testing.B, address string, channels int) {
	b.Helper()
	conn, err := amqp091.Dial("amqp://guest:guest@" + address + "/")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() }) // it served its purpose
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range channels {
		ch, err := conn.Channel()
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			for n := i; n < b.N; n += channels {
				if _, err := ch.QueueDeclare(rand.Text(), true, false, false, false, nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
