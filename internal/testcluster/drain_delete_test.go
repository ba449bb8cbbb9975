package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// a queue that is deleted while it is published to, and whose leader and then all nodes
// are killed meanwhile, two of them at once, dead-letters every message that was confirmed, each once.
func TestDeleteOverCrashes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	cl := openClient(t, c)
	ctx := testContext(t)
	drainDeletes := client.Table{"x-dead-letter-exchange": "dlx", "x-on-delete": "dead-letter"}
	for q, args := range map[string]client.Table{"q": drainDeletes, "d": nil} {
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: q, Arguments: args}); err != nil {
			t.Fatal(err)
		}
	}
	p := publishers{t: t, cl: cl, confirmed: map[string]bool{}, enough: make(chan struct{})}
	p.start(ctx)
	<-p.enough
	out, err := cl.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "q"})
	if err != nil || !out.DrainDeleting {
		t.Fatalf("deleted: %v, %v", out, err)
	}
	crashLeader(t, c, cl, "q")
	p.wait.Wait()
	c.Kill(0)
	c.Kill(1)
	c.Restart(0)
	c.Restart(1)
	c.Kill(2)
	c.Restart(2)
	if _, err := cl.DeclareExchange(ctx, client.Exchange{Name: "dlx", Type: "fanout"}); err != nil {
		t.Fatal(err)
	}
	if err := cl.Bind(ctx, client.Binding{Source: "dlx", Destination: "d"}); err != nil {
		t.Fatal(err)
	}
	awaitDrainDeleted(t, cl, "q")
	got := takeAll(t, cl, "d")
	for body := range p.confirmed {
		if got[body] != 1 {
			t.Errorf("message %s was confirmed and has arrived %d times", body, got[body])
		}
	}
	for body, n := range got {
		if n != 1 {
			t.Errorf("message %s has arrived %d times", body, n)
		}
	}
	t.Logf("%d confirmed, %d arrived", len(p.confirmed), len(got))

	// A vhost is deleted with all that is in it, without waiting for dead letters.
	if _, err := cl.PutVHost(ctx, client.VHost{Name: "v"}); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.DeclareQueue(ctx, client.Queue{VHost: "v", Name: "q", Arguments: drainDeletes}); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.PublishOne(ctx, client.Message{VHost: "v", RoutingKey: "q"}); err != nil {
		t.Fatal(err)
	}
	if out, err := cl.DeleteQueue(ctx, client.DeleteQueueRequest{VHost: "v", Name: "q"}); err != nil || !out.DrainDeleting {
		t.Fatalf("deleted: %v, %v", out, err)
	}
	if _, err := cl.DeleteVHost(ctx, "v"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		testcluster.Poll(t, "the queue is gone", func() error {
			for q := range c.Cluster(i).View().Queues() {
				if q.VHost == "v" {
					return fmt.Errorf("there is %q", q.Name)
				}
			}
			return nil
		})
	}
}

// publishers publish to the queue q until it is routed to no more.
type publishers struct {
	t    *testing.T
	cl   *client.Client
	wait sync.WaitGroup

	mu        sync.Mutex
	confirmed map[string]bool
	enough    chan struct{} // closed after some confirms
}

func (p *publishers) start(ctx context.Context) {
	for i := range 4 {
		p.wait.Go(func() {
			for n := 0; p.publish(ctx, fmt.Sprint(i, ".", n)); n++ {
			}
		})
	}
}

func (p *publishers) publish(ctx context.Context, body string) (more bool) {
	r, err := p.cl.PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte(body), Mandatory: true})
	if ctx.Err() != nil {
		p.t.Error(err)
		return false
	}
	if err != nil {
		return r.Outcome != client.Returned // else its fate is not known
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.confirmed[body] = true; len(p.confirmed) == 200 {
		close(p.enough)
	}
	return true
}

// awaitDrainDeleted waits until a queue is deleted.
func awaitDrainDeleted(t *testing.T, cl *client.Client, queue string) {
	t.Helper()
	testcluster.Poll(t, queue+" is gone", func() error {
		q, err := cl.GetQueue(testContext(t), client.QueueRef{Name: queue})
		if client.ClassOf(err) == client.NotFound {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it is %s with %v", q.State, q.Stats))
	})
}

// takeAll takes what a queue has, and counts the bodies.
func takeAll(t *testing.T, cl *client.Client, queue string) map[string]int {
	t.Helper()
	got := map[string]int{}
	for {
		m, err := cl.Get(testContext(t), client.GetRequest{Queue: queue, AutoAck: true})
		if err != nil {
			t.Fatal(err)
		}
		if m == nil {
			return got
		}
		got[string(m.Body)]++
	}
}
