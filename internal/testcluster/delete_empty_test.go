package testcluster_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/quorumq"
)

// a queue that is deleted if it is empty takes no message with it that it has confirmed as stored, at whatever moment
// between its messages it is deleted.
func TestDeletedIfEmptyLosesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	const tries = 20
	c := testcluster.Start(t, 1)
	cl, ctx := openClient(t, c), testContext(t)
	taken := 0
	for range tries {
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
			t.Fatal(err)
		}
		var user sync.WaitGroup
		user.Go(func() {
			for {
				r, err := cl.PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte("x")})
				if err != nil || r.Queues == 0 {
					return // the queue refused the message, or is gone
				}
				if d, err := cl.Get(ctx, client.GetRequest{Queue: "q", AutoAck: true}); err != nil || d == nil {
					t.Errorf("a message was stored (%+v), and its queue deleted as an empty one: %v", r, err)
					return
				}
				taken++
			}
		})
		refused := errors.New("not tried")
		for refused != nil && ctx.Err() == nil {
			_, refused = cl.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "q", IfEmpty: true})
			if refused != nil && client.ClassOf(refused) != client.PreconditionFailed {
				t.Error(refused)
			}
		}
		user.Wait()
	}
	t.Logf("%d messages were stored and taken, and %d queues deleted", taken, tries)
}

// whoever deletes a queue at the same time as others, on whatever conditions, finds it deleted; and a declare right
// after that makes a new one, which stays.
func TestDeletersAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	ctx := testContext(t)
	var clients []*client.Client
	for i := range 3 {
		clients = append(clients, admin(t, c, i))
	}
	hows := []client.DeleteQueueRequest{{IfEmpty: true}, {IfUnused: true}, {IfEmpty: true, IfUnused: true}}
	const tries = 20
	for try := range tries {
		if d, err := clients[try%3].DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil || !d.Created {
			t.Fatalf("try %d: declared: %+v, %v", try, d, err)
		}
		var all sync.WaitGroup
		for i, how := range hows {
			how.Name = "q"
			all.Go(func() {
				if _, err := clients[i].DeleteQueue(ctx, how); err != nil {
					t.Errorf("try %d: %+v: %v", try, how, err)
				}
			})
		}
		all.Wait()
	}
	if _, err := clients[0].DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	if r, err := clients[0].PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte("x")}); err != nil || r.Queues != 1 {
		t.Errorf("the new queue answers a publish with %+v, %v", r, err)
	}
}

// uidOf returns a queue's UID by the view of a node.
func uidOf(t *testing.T, c *cluster.Cluster, name string) id.QueueUID {
	t.Helper()
	rec, ok := c.View().Queue("/", name)
	if !ok {
		t.Fatalf("there is no queue %q", name)
	}
	return rec.UID
}

// Q-15, QX-2, QX-3: a declare that comes when the deletion of a queue is decided makes a new one, whether or not a declare
// in time would have deferred that.
func TestDeclareOfSealedQueue(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	cl, ctx := openClient(t, c), testContext(t)
	queues := []client.Queue{
		{Name: "expires", Arguments: client.Table{"x-expires": int64(time.Hour / time.Millisecond)}},
		{Name: "stays"},
	}
	for _, q := range queues {
		if _, err := cl.DeclareQueue(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	const tries = 40
	for try := range tries {
		q := queues[try%len(queues)]
		g, err := c.Cluster(0).Gateway().Queue(uidOf(t, c.Cluster(0), q.Name))
		if err != nil {
			t.Fatal(err)
		}
		if sealed, err := g.Seal(ctx, &quorumq.Seal{}); err != nil || !sealed {
			t.Fatalf("try %d: sealed: %v, %v", try, sealed, err)
		}
		if d, err := cl.DeclareQueue(ctx, q); err != nil || !d.Created {
			t.Fatalf("try %d: declared: %+v, %v", try, d, err)
		}
	}
	for _, q := range queues {
		if r, err := cl.PublishOne(ctx, client.Message{RoutingKey: q.Name, Body: []byte("x")}); err != nil || r.Queues != 1 {
			t.Errorf("the new queue %q answers a publish with %+v, %v", q.Name, r, err)
		}
	}
}

// a node that does not reach the catalog seals no queue, which would be of no use until it does.
func TestSealsNothingWithoutCatalog(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.StartPatient(t, 3, 2*time.Second)
	cl, ctx := openClient(t, c), testContext(t)
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "q", Arguments: client.Table{"x-quorum-initial-group-size": int64(1)}}); err != nil {
		t.Fatal(err)
	}
	q, err := cl.GetQueue(ctx, client.QueueRef{Name: "q"})
	if err != nil {
		t.Fatal(err)
	}
	here := c.Index(q.Members[0])
	uid := uidOf(t, c.Cluster(here), "q")
	others := []int{(here + 1) % 3, (here + 2) % 3}
	for _, i := range others {
		c.Kill(i)
	}
	_, err = c.Broker(here).DeleteQueue(identity.WithIdentity(ctx, identity.Itself()), "/", "q", broker.Deletion{IfEmpty: true})
	var e *failure.Error
	if !errors.As(err, &e) || e.Class != failure.Unavailable {
		t.Fatalf("the delete ends with %v", err)
	}
	if s, err := c.Cluster(here).Leaders().Status(ctx, uid); err != nil || s.Overview.DrainDeleting {
		t.Errorf("the queue is sealed: %v, %v", s.Overview.DrainDeleting, err)
	}
	for _, i := range others {
		c.Launch(i)
	}
	for _, i := range others {
		c.AwaitReady(i)
	}
	if _, err := cl.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "q", IfEmpty: true}); err != nil {
		t.Error(err)
	}
}
