package amqp_test

import (
	"context"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/amqp/wire"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// finalised waits until the cluster has finalised the version with the newest rules for queues.
func finalised(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cl, err := client.Dial(ctx, client.Config{Addresses: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for {
		s, err := cl.ClusterStatus(ctx)
		if err == nil && s.FinalizedVersion >= uint32(quorumq.NewestRules) {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("version %d is not finalised: %v, %v", quorumq.NewestRules, s.FinalizedVersion, err)
		}
	}
}

// A consumer that waits gets what comes, whatever the limits of a queue with drop-head. If nobody
// waits, the message is dropped (LEN-9).
func TestWaitingConsumerComesFirst(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 3)
	finalised(t, c)
	_, address := serve(t, c, amqp.Config{})
	for _, kind := range []string{"quorum", "classic"} {
		for _, limit := range []string{"x-max-length", "x-max-length-bytes"} {
			t.Run(kind+" "+limit, func(t *testing.T) {
				p := connect(t, address)
				queue := kind + limit
				p.send(1, &wire.QueueDeclare{Queue: queue, Durable: true, Arguments: message.Table{
					{Name: "x-queue-type", Value: message.String(kind)}, {Name: limit, Value: message.Int32(0)},
				}})
				want[*wire.QueueDeclareOK](p)
				p.subscribe(queue, "t", 1)
				p.publish("", queue, false, message.Message{Body: []byte("first")})
				first, body := p.delivery("t")
				if body != "first" {
					t.Fatalf("delivered %q", body)
				}
				p.publish("", queue, false, message.Message{Body: []byte("nobody waits for this one")})
				if body := p.getBody(queue); body != "" { // which waits for the publish
					t.Fatalf("%q is in a queue of length 0", body)
				}
				p.send(1, &wire.BasicAck{DeliveryTag: first})
				if body := p.getBody(queue); body != "" { // which waits for the ack
					t.Fatalf("%q is in a queue of length 0", body)
				}
				p.publish("", queue, false, message.Message{Body: []byte("last")})
				if _, body := p.delivery("t"); body != "last" {
					t.Fatalf("delivered %q, want last", body)
				}
			})
		}
	}
}
