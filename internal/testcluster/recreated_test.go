package testcluster_test

import (
	"sync"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// VH-6, VH-7: whoever may not publish to an exchange cannot have dead letters or unroutable messages sent there by
// declaring, over and over, a queue or exchange that is being deleted: to the view of its node it exists, and in the
// catalog it does not any more.
func TestRecreatedNeedsRights(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	root, ctx := openClient(t, c), testContext(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := root.PutUser(ctx, client.User{Name: "mallory", Password: "secret"})
	must(err)
	_, err = root.SetPermission(ctx, client.Permission{User: "mallory", Configure: "^m", Write: "^m", Read: "^m"})
	must(err)
	_, err = root.DeclareExchange(ctx, client.Exchange{Name: "orders", Type: "fanout"})
	must(err)
	mallory := openClient(t, c, as("mallory", "secret"))
	queue := client.Queue{Name: "mq", Arguments: client.Table{"x-dead-letter-exchange": "orders"}}
	exchange := client.Exchange{Name: "mx", Type: "fanout", Arguments: client.Table{"alternate-exchange": "orders"}}
	for range recreations {
		_, err = mallory.DeclareQueue(ctx, client.Queue{Name: "mq"})
		must(err)
		whileDeleted(t, func() error {
			_, err := mallory.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "mq"})
			return err
		}, func() error {
			_, err := mallory.DeclareQueue(ctx, queue)
			return err
		})
		_, err = mallory.DeclareExchange(ctx, client.Exchange{Name: "mx", Type: "fanout"})
		must(err)
		whileDeleted(t, func() error {
			return mallory.DeleteExchange(ctx, client.DeleteExchangeRequest{Name: "mx"})
		}, func() error {
			_, err := mallory.DeclareExchange(ctx, exchange)
			return err
		})
	}
}

// recreations is how often a test deletes what is declared meanwhile: in a fraction of them the declare meets the moment
// between the delete's entry and its node's view of it.
const recreations = 20

// whileDeleted declares again and again, also at the same time, until a delete has ended. No declare may succeed.
func whileDeleted(t *testing.T, remove, declare func() error) {
	t.Helper()
	const declaring = 4
	var all sync.WaitGroup
	deleted := make(chan struct{})
	for range declaring {
		all.Go(func() {
			for {
				if declare() == nil {
					t.Error("a declare that must be refused has succeeded")
				}
				select {
				case <-deleted:
					return
				default:
				}
			}
		})
	}
	err := remove()
	close(deleted)
	all.Wait()
	if err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// the arguments of a declare are checked if it creates the queue, although it existed when the declare came.
func TestRecreatedIsChecked(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	cl, ctx := openClient(t, c), testContext(t)
	for range recreations {
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
			t.Fatal(err)
		}
		whileDeleted(t, func() error {
			_, err := cl.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "q"})
			return err
		}, func() error {
			_, err := cl.DeclareQueue(ctx, client.Queue{Name: "q", Arguments: client.Table{"x-max-length": "many"}})
			return err
		})
	}
}
