package testcluster_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// BenchmarkFanOut measures a publish to a fanout exchange until all queues behind it have
// it on a majority of three nodes, with many publishes under way.
func BenchmarkFanOut(b *testing.B) {
	c := testcluster.Start(b, 3)
	x, err := client.Dial(b.Context(), client.Config{Addresses: c.Addrs()})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	for _, n := range []int{1, 10, 100} {
		exchange := fmt.Sprint("x", n)
		if _, err := x.DeclareExchange(b.Context(), client.Exchange{Name: exchange, Type: "fanout"}); err != nil {
			b.Fatal(err)
		}
		for i := range n {
			q := fmt.Sprint(exchange, "-", i)
			if _, err := x.DeclareQueue(b.Context(), client.Queue{Name: q, Arguments: client.Table{"x-max-length": 1000}}); err != nil {
				b.Fatal(err)
			}
			if err := x.Bind(b.Context(), client.Binding{Source: exchange, Destination: q}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprint(n, "queues"), func(b *testing.B) { publishAll(b, x, exchange, n) })
	}
}

func publishAll(b *testing.B, x *client.Client, exchange string, queues int) {
	p, err := x.Publisher(client.PublisherConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Close(b.Context()) }() // its messages are confirmed
	m := client.Message{Exchange: exchange, Body: make([]byte, 100), Mandatory: true}
	// The first one waits until its node knows all bindings.
	for {
		r, err := x.PublishOne(b.Context(), m)
		if err == nil && int(r.Queues) == queues {
			break
		}
		if b.Context().Err() != nil {
			b.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 500)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		slots <- struct{}{}
		wg.Add(1)
		err := p.PublishAsync(b.Context(), m, func(_ client.Result, err error) {
			if err != nil {
				b.Error(err)
			}
			<-slots
			wg.Done()
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N*queues)/b.Elapsed().Seconds(), "stored/s")
}
