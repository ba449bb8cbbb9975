package amqp_test

import (
	"fmt"
	"sync"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/testcluster"
)

// declareChannels is how many channels of one connection declare queues at the same time.
const declareChannels = 8

// BenchmarkDeclares declares quorum queues in a cluster of three nodes, over several channels of
// one connection. Each channel declares one queue after the other.
func BenchmarkDeclares(b *testing.B) {
	c := testcluster.Start(b, 3)
	conn, err := amqp091.Dial("amqp://guest:guest@" + c.AMQP(0) + "/")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() }) // it served its purpose
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range declareChannels {
		ch, err := conn.Channel()
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			for n := i; n < b.N; n += declareChannels {
				if _, err := ch.QueueDeclare(fmt.Sprint("q", n), true, false, false, false, nil); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
