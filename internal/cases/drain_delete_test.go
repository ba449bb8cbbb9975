package cases

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/client"
)

// drainDeletes are arguments of a queue that dead-letters what it holds before it goes.
var drainDeletes = args{"x-on-delete": "dead-letter"}

func (k *kase) remove(queue string, how func(*client.DeleteQueueRequest)) client.QueueDeleted {
	k.Helper()
	r := client.DeleteQueueRequest{Name: queue}
	if how != nil {
		how(&r)
	}
	out, err := k.client.DeleteQueue(k.ctx, r)
	k.must(err)
	return out
}

// strategy at-most-once, with nowhere to go at first.
func TestT350(t *testing.T) {
	k := begin(t, "a queue that is deleted dead-letters what it holds first")
	x, d := k.name("x"), k.queue("d", nil)
	q := k.queue("q", args{"x-dead-letter-exchange": x, "x-on-delete": "dead-letter"})
	k.bind("amq.fanout", q, k.name("key"))
	k.publish(q, "1", "2", "3")
	held := k.consume(q, 1)
	got := k.get(q, false)
	k.same("held", deliveredBodies(k.receive(held, 1))[0]+" "+string(got.Body), "1 2")
	w := k.watch(k.client.Client, "/", "queue_deleting", "queue_deleted")

	out := k.remove(q, nil)
	k.same("it held", fmt.Sprint(out.Ready, " ", out.Unsettled, " ", out.DrainDeleting), "1 2 true")
	w.await("queue_deleting", q)
	_, err := held.Receive(k.ctx)
	if !errors.Is(err, client.ErrCancelled) {
		k.Errorf("the consumer ends with %v", err)
	}
	k.trouble(q, "does not exist")
	k.backlog(q, 3)

	_, err = k.client.DeclareQueue(k.ctx, client.Queue{Name: q, Arguments: drainDeletes})
	k.class("declare", err, client.ResourceLocked)
	_, err = k.client.DeclareQueue(k.ctx, client.Queue{Name: q, Passive: true})
	k.class("passive declare", err, client.NotFound)
	_, err = k.client.Get(k.ctx, "", q, true)
	k.class("get", err, client.NotFound)
	_, err = k.client.Consume(k.ctx, client.ConsumeConfig{Queue: q})
	k.class("consume", err, client.NotFound)
	k.class("bind", k.client.Bind(k.ctx, client.Binding{Source: "amq.fanout", Destination: q}), client.NotFound)
	r, _ := k.try(q, "late", func(m *client.Message) { m.Mandatory = true })
	k.same("routed to", r.Outcome, client.Returned)
	s, err := k.client.GetQueue(k.ctx, client.QueueRef{Name: q})
	k.must(err)
	k.same("state", s.State, "deleting")
	k.same("a repeat", k.remove(q, nil).DrainDeleting, true)

	k.exchange("x", "fanout", client.Exchange{})
	k.bind(x, d, "")
	k.ready(d, 3)
	for _, want := range []string{"1 1", "2 1", "3 0"} {
		m := k.get(d, true)
		k.same("arrived", fmt.Sprint(string(m.Body), " ", m.Deaths[0].AcquiredCount), want)
		k.same("death", death(&m.Received, 0), q+" queue_deleted 1")
	}
	k.gone(q)
	w.await("queue_deleted", q)
	k.queue("q", nil)
	k.publish(q, "anew")
	k.same("a new one", k.bodies(q, 1), []string{"anew"})
}

// Q-18, PO-8.
func TestT351(t *testing.T) {
	k := begin(t, "by policy, on expiry and with the last consumer; discarded where that is asked for, or nothing dead-letters")
	d := k.queue("d", nil)
	byPolicy := k.queue("policy", dlx(d))
	k.policy("p", args{"on-delete": "dead-letter"}, func(p *client.Policy) { p.Pattern = "^" + byPolicy + "$" })
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: k.name("auto"), AutoDelete: true, Arguments: dlx(d, drainDeletes)})
	k.must(err)
	consumer := k.consume(k.name("auto"), 1)
	// Its time runs from here on, whatever it gets: long enough for a message on a busy machine.
	expiring := k.queue("expiring", dlx(d, drainDeletes, args{"x-expires": 6000}))
	for _, q := range []string{expiring, byPolicy, k.name("auto")} {
		k.publish(q, q)
	}
	k.receive(consumer, 1)
	consumer.Close()
	k.remove(byPolicy, nil)
	got := map[string]bool{}
	for range 3 {
		m := k.get(d, true)
		got[string(m.Body)+" "+death(&m.Received, 0)] = true
	}
	for _, q := range []string{byPolicy, expiring, k.name("auto")} {
		k.same(q+" dead-lettered", got[q+" "+q+" queue_deleted 1"], true)
		k.gone(q)
	}

	for name, a := range map[string]args{
		"discarded": dlx(d, drainDeletes), "said": dlx(d, args{"x-on-delete": "discard"}), "nowhere": drainDeletes,
	} {
		q := k.queue(name, a)
		k.publish(q, name)
		k.same(name+" drain-deleting", k.remove(q, func(r *client.DeleteQueueRequest) { r.Discard = name == "discarded" }).DrainDeleting, false)
		k.gone(q)
	}
	k.empty(d)

	// One that cannot go on is given up by a second delete.
	stuck := k.queue("stuck", args{"x-dead-letter-exchange": k.name("none"), "x-on-delete": "dead-letter"})
	k.publish(stuck, "m")
	k.same("stuck", k.remove(stuck, nil).DrainDeleting, true)
	k.same("given up", k.remove(stuck, func(r *client.DeleteQueueRequest) { r.Discard = true }).Backlog, 1)
	k.gone(stuck)

	_, err = k.client.DeclareQueue(k.ctx, client.Queue{Name: k.name("bad"), Arguments: args{"x-on-delete": "keep"}})
	k.class("another way", err, client.PreconditionFailed)
	_, err = k.client.DeclareQueue(k.ctx, client.Queue{Name: k.name("bad"), Arguments: args{"x-on-delete": true}})
	k.class("no string", err, client.PreconditionFailed)
}
