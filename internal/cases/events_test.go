package cases

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// watch follows the events of a vhost from now on; seen polls for one.
type watch struct {
	k    *kase
	mu   sync.Mutex
	seen []client.Event
}

func (k *kase) watch(c *client.Client, vhost string, kinds ...string) *watch {
	k.Helper()
	w := &watch{k: k}
	ctx, stop := context.WithCancel(k.ctx)
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.WatchEvents(ctx, client.WatchEventsRequest{VHost: vhost, Kinds: kinds}, func(events []client.Event) error {
			if len(events) == 0 {
				close(begun)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen = append(w.seen, events...)
			return nil
		})
	}()
	k.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			k.Errorf("watching: %v", err)
		}
	})
	select {
	case <-begun:
	case err := <-ended:
		ended <- context.Canceled
		k.Fatalf("watching: %v", err)
	}
	return w
}

// await polls until there was an event of that kind and name.
func (w *watch) await(kind, name string) client.Event {
	w.k.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		w.mu.Lock()
		i := slices.IndexFunc(w.seen, func(e client.Event) bool { return e.Kind == kind && e.Name == name })
		if i >= 0 {
			defer w.mu.Unlock()
			return w.seen[i]
		}
		var all []string
		for _, e := range w.seen {
			all = append(all, e.Kind+" "+e.Name)
		}
		w.mu.Unlock()
		select {
		case <-tick.C:
		case <-w.k.ctx.Done():
			w.k.Fatalf("no %s of %s among %s", kind, name, strings.Join(all, ", "))
		}
	}
}

// ST-5: changes of the catalog.
func TestT305(t *testing.T) {
	k := begin(t, "what is made, changed and deleted is reported as events, once")
	v := k.vhost(client.VHost{})
	w := k.watch(k.client.Client, v)
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{VHost: v, Name: "q"})
	k.must(err)
	_, err = k.admin.DeclareExchange(k.ctx, &brokerv1.DeclareExchangeRequest{Vhost: v, Name: "x", Type: "fanout"})
	k.must(err)
	for range 2 {
		_, err = k.admin.Bind(k.ctx, &brokerv1.BindRequest{Binding: &brokerv1.Binding{Vhost: v, Source: "x", Destination: "q", RoutingKey: "k"}})
		k.must(err)
		_, err = k.client.PutPolicy(k.ctx, client.Policy{VHost: v, Name: "p", Pattern: ".*", Definition: args{"max-length": 5}})
		k.must(err)
	}
	_, err = k.client.DeletePolicy(k.ctx, client.PolicyRef{VHost: v, Name: "p"})
	k.must(err)
	_, err = k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{VHost: v, Name: "q"})
	k.must(err)
	w.await("leader_changed", "q")
	w.await("queue_deleted", "q")
	w.mu.Lock()
	defer w.mu.Unlock()
	var reported []string
	for _, e := range w.seen {
		if e.Kind != "leader_changed" {
			reported = append(reported, e.Kind+" "+e.Name)
		}
	}
	k.same("events", reported, []string{
		"queue_created q", "exchange_created x", "binding_created x q k", "policy_created p", "policy_changed p", "policy_deleted p", "queue_deleted q",
	})
}

// ST-5, LEN-7, DL-20, DL-26, CT-2: what the leaders of queues report, on whatever node is asked.
func TestT306(t *testing.T) {
	k := begin(t, "a full queue, dead letters that wait, a timeout and a weaker strategy are reported as events")
	watches := []*watch{}
	for _, n := range k.cluster.Nodes {
		c, err := client.Dial(k.ctx, client.Config{Addresses: []string{n.Client}, FixedAddresses: true})
		k.must(err)
		k.Cleanup(c.Close)
		watches = append(watches, k.watch(c, "/"))
	}
	full := k.queue("full", args{"x-max-length": 1, "x-overflow": "reject-publish"})
	k.publish(full, "m")
	weak := k.queue("weak", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "d", "x-dead-letter-strategy": "at-least-once"})
	stuck := k.queue("stuck", args{
		"x-dead-letter-exchange": k.name("none"), "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	})
	k.publish(stuck, "m")
	k.settle(k.get(stuck, false), reject)
	late := k.queue("late", args{"x-consumer-timeout": 250})
	k.publish(late, "m")
	consumer, err := k.client.Consume(k.ctx, client.ConsumeConfig{Queue: late})
	k.must(err)
	k.Cleanup(consumer.Close)
	for _, w := range watches {
		w.await("queue_full", full)
		w.await("degraded_strategy", weak)
		if e := w.await("dead_letter_blocked", stuck); e.Cause == "" {
			k.Errorf("no cause: %v", e)
		}
		k.same("deliveries", w.await("consumer_timeout", late).Count, uint64(1))
	}
	k.settle(k.get(full, false), ack)
	k.bind(k.exchange("none", "fanout", client.Exchange{}), k.queue("d", nil), "")
	for _, w := range watches {
		w.await("queue_not_full", full)
		w.await("dead_letter_unblocked", stuck)
	}
}
