package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

const (
	smallLimit = "330MiB" // of GOMEMLIMIT: publishers are held back above three quarters
	passed     = 1000     // messages that would be kept in memory, all of them, if there were room
	passedBody = 256 << 10
)

// Caches do not hold publishers back: more than the memory of a node passes through its queue,
// and is gone, over gRPC and over AMQP. Publishers go on, and the figures say why.
func TestSmallMemory(t *testing.T) {
	binary := build(t)
	t.Setenv("GOMEMLIMIT", smallLimit)
	c, err := chaos.NewCluster(chaos.ClusterConfig{
		Binary: binary, Dir: t.TempDir(), Nodes: 1, Settings: "log:\n  format: json\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	pass(ctx, t, c)
	passAMQP(ctx, t, c.Nodes[0].AMQP)
	text, status, err := get(ctx, t, "http://"+c.Nodes[0].HTTP+"/metrics")
	if err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	for _, name := range []string{
		"quorate_memory_used_bytes", "quorate_memory_limit_bytes", "quorate_memory_high_bytes",
		"quorate_body_cache_bytes", "quorate_body_cache_limit_bytes", "quorate_log_cache_bytes", "quorate_alarm_memory",
	} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("%s is missing", name)
		}
	}
	for _, line := range []string{"quorate_memory_limit_bytes 3.4603008e+08", "quorate_alarm_memory 0"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%q is missing:\n%s", line, text)
		}
	}
}

// pass publishes and consumes more than the node's memory.
func pass(ctx context.Context, t *testing.T, c *chaos.Cluster) {
	t.Helper()
	cl := withQueue(ctx, t, c)
	defer cl.Close()
	s, err := cl.Consume(ctx, client.ConsumeConfig{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	consumed := make(chan error, 1)
	go func() {
		for range passed {
			d, err := s.Receive(ctx)
			if err == nil {
				err = d.Ack()
			}
			if err != nil {
				consumed <- err
				return
			}
		}
		consumed <- nil
	}()
	p, err := cl.Publisher(client.PublisherConfig{MaxInFlight: 16})
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, passedBody)
	for i := range passed {
		err := p.PublishAsync(ctx, client.Message{RoutingKey: "q", Body: body}, func(_ client.Result, err error) {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("message %d: %v", i, err)
			}
		})
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if err := errors.Join(p.Flush(ctx), p.Close(ctx), <-consumed); err != nil {
		t.Fatal(err)
	}
}

// passAMQP does the same over AMQP. The library does not wait while the server blocks the
// connection; its confirms do.
func passAMQP(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	conn, err := amqp.Dial("amqp://guest:guest@" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ch.Confirm(false), ch.Qos(16, 0, false)); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume("q", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	confirms := make([]*amqp.DeferredConfirmation, 0, passed)
	body := make([]byte, passedBody)
	for i := range passed {
		if i >= 16 {
			if ok, err := confirms[i-16].WaitContext(ctx); err != nil || !ok {
				t.Fatalf("message %d: confirmed %v, %v", i-16, ok, err)
			}
			select {
			case d := <-deliveries:
				if err := d.Ack(false); err != nil {
					t.Fatal(err)
				}
			case <-ctx.Done():
				t.Fatalf("delivery %d: %v", i-16, ctx.Err())
			}
		}
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", "q", false, false, amqp.Publishing{Body: body})
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		confirms = append(confirms, confirm)
	}
}
