package cases

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

//
func TestT024(t *testing.T) {
	k := begin(t, "a quorum queue is durable, shared and named")
	quorum := &brokerv1.Table{Fields: []*brokerv1.Field{{
		Name: "x-queue-type", Value: &brokerv1.Value{Kind: &brokerv1.Value_String_{String_: "quorum"}},
	}}}
	durable := false
	for property, r := range map[string]*brokerv1.DeclareQueueRequest{
		"exclusive": {Name: k.name("q"), Exclusive: true},
		"auto":      {Name: k.name("q"), AutoDelete: true},
		"durable":   {Name: k.name("q"), Durable: &durable},
		"name":      {Name: ""},
	} {
		r.Arguments = quorum
		_, err := k.admin.DeclareQueue(k.ctx, r)
		c := status.Code(err)
		if c != codes.InvalidArgument && c != codes.FailedPrecondition || !strings.Contains(err.Error(), property) {
			k.Errorf("%s: %v", property, err)
		}
	}
}

//
func TestT025(t *testing.T) {
	k := begin(t, "bad queue arguments are refused by name")
	for i, a := range []args{
		{"x-max-length": -1},
		{"x-max-length": "5"},
		{"x-message-ttl": -1},
		{"x-message-ttl": int64(315360000001)},
		{"x-message-ttl": "100"},
		{"x-expires": 0},
		{"x-overflow": "nope"},
		{"x-single-active-consumer": "true"},
		{"x-quorum-initial-group-size": 0},
		{"x-queue-leader-locator": "bogus"},
		{"x-dead-letter-exchange": 5},
		{"x-dead-letter-strategy": "bogus"},
		{"x-max-priority": 5},
		{"x-queue-mode": "lazy"},
	} {
		for name := range a {
			_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: k.name(fmt.Sprint(i)), Arguments: a})
			e := k.refusal(fmt.Sprint(a), err, client.PreconditionFailed)
			if e.Arg != name && !strings.Contains(e.Text, name) {
				k.Errorf("%v: the error does not name the argument: %+v", a, e)
			}
		}
	}
}

// Q-7, RE-1.
func TestT026(t *testing.T) {
	k := begin(t, "the edges of queue arguments are taken")
	for i, a := range []args{
		{"x-message-ttl": 0},
		{"x-message-ttl": int64(315360000000)},
		{"x-max-length": 0},
		{"x-delivery-limit": 0},
		{"x-delivery-limit": -7},
		{"x-foo": "bar"},
		{"x-max-in-memory-length": 5},
	} {
		k.queue(fmt.Sprint(i), a)
	}
	q, err := k.client.GetQueue(k.ctx, client.QueueRef{Name: k.queue("five", args{"x-quorum-initial-group-size": 5})})
	k.must(err)
	k.same("members", len(q.Members), 3)
}

//
func TestT027(t *testing.T) {
	k := begin(t, "a dead-letter routing key needs an exchange")
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: k.name("q"), Arguments: args{"x-dead-letter-routing-key": "k"}})
	k.class("declare", err, client.PreconditionFailed)
}

//
func TestT029(t *testing.T) {
	k := begin(t, "a queue is declared again only as it is")
	q := k.queue("q", args{"x-max-length": int32(5), "x-foo": 1})
	for i, test := range []struct {
		a  args
		ok bool
	}{
		{args{"x-max-length": int32(5), "x-foo": 1}, true},
		{args{"x-max-length": int64(5), "x-foo": 1}, true},
		{args{"x-max-length": 5, "x-foo": 2}, true},
		{args{"x-max-length": 6, "x-foo": 1}, false},
		{args{"x-foo": 1}, false},
		{args{"x-max-length": "5"}, false},
		{args{"x-max-length": 5, "x-message-ttl": 5}, false},
	} {
		_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: q, Arguments: test.a})
		if test.ok && err != nil {
			k.Errorf("%d: %v: %v", i, test.a, err)
		} else if !test.ok {
			k.class(fmt.Sprint(i, test.a), err, client.PreconditionFailed)
		}
	}
}

//
func TestT030(t *testing.T) {
	k := begin(t, "properties must agree; a passive declare looks at nothing but the name")
	q := k.queue("q", nil)
	durable := false
	for what, r := range map[string]*brokerv1.DeclareQueueRequest{
		"durable": {Durable: &durable}, "auto-delete": {AutoDelete: true}, "exclusive": {Exclusive: true},
	} {
		r.Name = q
		if _, err := k.admin.DeclareQueue(k.ctx, r); status.Code(err) != codes.FailedPrecondition && status.Code(err) != codes.InvalidArgument {
			k.Errorf("%s: %v", what, err)
		}
	}
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: q, Passive: true, Arguments: args{"x-max-length": "nonsense"}})
	k.must(err)
}

//
func TestT031(t *testing.T) {
	k := begin(t, "an exclusive queue is its connection's alone and ends with it")
	one, err := client.Dial(k.ctx, client.Config{Addresses: k.cluster.Addresses()})
	k.must(err)
	defer one.Close()
	e := k.name("e")
	_, err = one.DeclareQueue(k.ctx, client.Queue{Name: e, Exclusive: true})
	k.must(err)
	passive := func() error {
		_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: e, Passive: true})
		return err
	}
	k.class("passive declare", passive(), client.ResourceLocked)
	_, err = k.client.Get(k.ctx, "", e, true)
	k.class("get", err, client.ResourceLocked)
	k.publish(e, "to e")
	m, err := one.Get(k.ctx, client.GetRequest{Queue: e, AutoAck: true})
	k.must(err)
	if m == nil || string(m.Body) != "to e" {
		k.Errorf("the owner got %v", m)
	}
	one.Close()
	k.eventually("the queue is gone", func() error {
		if err := passive(); client.ClassOf(err) != client.NotFound {
			return fmt.Errorf("it answers %w", err)
		}
		return nil
	})
}

//
func TestT032(t *testing.T) {
	k := begin(t, "an auto-delete queue goes with its last consumer")
	q := k.name("q")
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: q, AutoDelete: true})
	k.must(err)
	k.publish(q, "a")
	s := k.consume(q, 1)
	k.receive(s, 1)
	k.must(s.Cancel(k.ctx, false))
	k.eventually("the queue is gone", func() error {
		_, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: q, Passive: true})
		if client.ClassOf(err) != client.NotFound {
			return fmt.Errorf("it answers %w", err)
		}
		return nil
	})
}

//
func TestT033(t *testing.T) {
	k := begin(t, "message_count counts ready messages only")
	q := k.queue("q", dlx(k.name("nowhere"), alo()))
	k.publish(q, numbers(1, 6)...)
	k.settle(k.get(q, false), reject) // stays in the backlog
	k.get(q, false)
	k.get(q, false)
	k.ready(q, 3)
	r, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: q, Passive: true})
	k.must(err)
	k.same("message_count", r.MessageCount, 3)
	s := k.stats(q)
	k.same("unacked and backlog", []uint64{s.MessagesUnacknowledged, s.MessagesDLX, s.Messages}, []uint64{2, 1, 6})
}

//
func TestT034(t *testing.T) {
	k := begin(t, "delete minds if_unused and if_empty")
	q := k.queue("q", nil)
	k.publish(q, "a", "b")
	s := k.consume(q, 1)
	k.receive(s, 1)
	_, err := k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{Name: q, IfUnused: true})
	k.class("if_unused", err, client.PreconditionFailed)
	_, err = k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{Name: q, IfEmpty: true})
	k.class("if_empty", err, client.PreconditionFailed)
	r, err := k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{Name: q})
	k.must(err)
	k.same("ready", r.Ready, 1)
}

//
func TestT035(t *testing.T) {
	k := begin(t, "a missing queue: delete is no error, the rest is")
	q := k.name("missing")
	r, err := k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{Name: q})
	k.must(err)
	k.same("deleted", r.Ready, 0)
	_, err = k.client.PurgeQueue(k.ctx, "", q)
	e := k.refusal("purge", err, client.NotFound)
	k.named(e, q)
	_, err = k.client.Consume(k.ctx, client.ConsumeConfig{Queue: q})
	k.class("consume", err, client.NotFound)
	_, err = k.client.Get(k.ctx, "", q, true)
	k.class("get", err, client.NotFound)
}
