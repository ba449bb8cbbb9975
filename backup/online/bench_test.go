package online

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/clienttest"
)

// nowhere is a place that keeps nothing, so that a benchmark measures the cluster and not a disk.
type nowhere struct{}

func (nowhere) Put(context.Context, string, []byte) error { return nil }

func (nowhere) Get(context.Context, string) (io.ReadCloser, error) { return nil, archive.ErrNoObject }

func (nowhere) Close() error { return nil }

func (nowhere) Abandon() error { return nil }

// BenchmarkCreate copies a queue of 200,000 messages of 1 KB, while a publisher sends messages of this size to another
// queue one after another. calm-p99-ms and p99-ms are its confirms before and during the copies.
func BenchmarkCreate(b *testing.B) {
	const messages, size = 200_000, 1000
	x := clienttest.Start(b, 3)
	ctx := b.Context()
	c, err := client.Dial(ctx, client.Config{Addresses: x.Addresses()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, q := range []string{"full", "other"} {
		if _, err := c.DeclareQueue(ctx, client.Queue{Name: q}); err != nil {
			b.Fatal(err)
		}
	}
	p, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, size)
	for range messages {
		if err := p.PublishAsync(ctx, client.Message{RoutingKey: "full", Body: body}, func(_ client.Result, err error) {
			if err != nil {
				b.Error(err)
			}
		}); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	publish := func(until <-chan struct{}) float64 {
		var took []time.Duration
		for {
			select {
			case <-until:
				slices.Sort(took)
				return float64(took[len(took)*99/100].Microseconds()) / 1000
			default:
			}
			at := time.Now()
			if _, err := p.Publish(ctx, client.Message{RoutingKey: "other", Body: body}); err != nil {
				b.Error(err)
				return 0
			}
			took = append(took, time.Since(at))
		}
	}
	calm := make(chan struct{})
	time.AfterFunc(3*time.Second, func() { close(calm) })
	before := publish(calm)
	done := make(chan struct{})
	var during float64
	var publishing sync.WaitGroup
	publishing.Go(func() { during = publish(done) })
	b.SetBytes(messages * size)
	b.ResetTimer()
	for range b.N {
		job := Create{Client: c, Queues: []string{"full"}, Store: nowhere{}, Plan: archive.Manifest{VHost: "/"}, Seen: func(Progress) {}}
		if _, err := job.Run(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	close(done)
	publishing.Wait()
	b.ReportMetric(before, "calm-p99-ms")
	b.ReportMetric(during, "p99-ms")
}
