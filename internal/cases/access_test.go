package cases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// vhost makes the vhost of this case.
func (k *kase) vhost(h client.VHost) string {
	k.Helper()
	h.Name = k.name("v")
	_, err := k.client.PutVHost(k.ctx, h)
	k.must(err)
	k.Cleanup(func() { _, _ = k.client.DeleteVHost(k.ctx, h.Name) })
	return h.Name
}

// VH-1.
func TestT001(t *testing.T) {
	k := begin(t, "nothing can be done in a vhost that does not exist")
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{VHost: k.name("nov"), Name: "q"})
	k.same("kind", k.refusal("declare", err, client.NotFound).Kind, "vhost")
	_, err = k.client.Consume(k.ctx, client.ConsumeConfig{VHost: k.name("nov"), Queue: "q"})
	k.class("consume", err, client.NotFound)
	_, err = k.client.PublishOne(k.ctx, client.Message{VHost: k.name("nov"), RoutingKey: "q"})
	k.class("publish", err, client.NotFound)
	stream, err := k.broker.Connect(k.ctx, &brokerv1.ConnectRequest{Vhost: k.name("nov")})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "NOT_ALLOWED") {
		k.Errorf("a connection to it: %v", err)
	}
}

// VH-4.
func TestT009(t *testing.T) {
	k := begin(t, "max-queues refuses a new queue and not an old one")
	two := int64(2)
	v := k.vhost(client.VHost{Limits: client.VHostLimits{MaxQueues: &two}})
	declare := func(name string) error {
		_, err := k.client.DeclareQueue(k.ctx, client.Queue{VHost: v, Name: name})
		return err
	}
	k.must(declare("a"))
	k.must(declare("b"))
	k.class("a third", declare("c"), client.PreconditionFailed)
	k.must(declare("a"))
}

// Q-3, VH-3.
func TestT037(t *testing.T) {
	k := begin(t, "the vhost's default type is for durable queues that name none")
	v := k.vhost(client.VHost{DefaultQueueType: "quorum"})
	for range 2 {
		_, err := k.client.DeclareQueue(k.ctx, client.Queue{VHost: v, Name: "durable"})
		k.must(err)
	}
	q, err := k.client.GetQueue(k.ctx, client.QueueRef{VHost: v, Name: "durable"})
	k.must(err)
	k.same("type", q.Type, "quorum")
	for _, q := range []client.Queue{
		{VHost: v, Name: "exclusive", Exclusive: true}, {VHost: v, Name: "transient", Transient: true}, {VHost: v, Name: "auto", AutoDelete: true},
	} {
		for range 2 {
			_, err := k.client.DeclareQueue(k.ctx, q)
			k.must(err)
		}
		got, err := k.client.GetQueue(k.ctx, client.QueueRef{VHost: v, Name: q.Name})
		k.must(err)
		k.same("type of "+q.Name, got.Type, "classic")
	}
}

// VH-2.
func TestT158(t *testing.T) {
	k := begin(t, "a vhost that is deleted while queues are declared in it leaves nothing")
	v := k.vhost(client.VHost{})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			_, err := k.client.DeclareQueue(k.ctx, client.Queue{VHost: v, Name: fmt.Sprint("q", i)})
			if c := client.ClassOf(err); err != nil && c != client.NotFound {
				k.Errorf("declare: %v, want success or that the vhost is gone", err)
			}
		})
		if i == 10 {
			wg.Go(func() {
				if _, err := k.client.DeleteVHost(k.ctx, v); err != nil {
					k.Errorf("delete: %v", err)
				}
			})
		}
	}
	wg.Wait()
	k.eventually("the vhost is gone", func() error {
		all, err := client.Collect(k.client.VHosts(k.ctx))
		if err == nil && slices.ContainsFunc(all, func(h client.VHost) bool { return h.Name == v }) {
			err = errors.New("it is listed")
		}
		return err
	})
	_, err := k.client.GetQueue(k.ctx, client.QueueRef{VHost: v, Name: "q0"})
	k.class("a queue of it", err, client.NotFound)
	// A vhost of that name is a new one.
	k.vhost(client.VHost{})
	_, err = k.client.GetQueue(k.ctx, client.QueueRef{VHost: v, Name: "q0"})
	k.class("a queue of the old one", err, client.NotFound)
}

// user logs in as a user of this case, with these rights in "/".
func (k *kase) user(configure, write, read string) *client.Client {
	k.Helper()
	name := k.name("u")
	_, err := k.client.PutUser(k.ctx, client.User{Name: name, Password: "secret"})
	k.must(err)
	k.Cleanup(func() { _, _ = k.client.DeleteUser(k.ctx, name) })
	k.may(configure, write, read)
	c, err := client.Dial(k.ctx, client.Config{Addresses: k.cluster.Addresses(), Username: name, Password: "secret"})
	k.must(err)
	k.Cleanup(c.Close)
	return c
}

// may changes the rights of this case's user.
func (k *kase) may(configure, write, read string) {
	k.Helper()
	_, err := k.client.SetPermission(k.ctx, client.Permission{User: k.name("u"), Configure: configure, Write: write, Read: read})
	k.must(err)
}

// VH-6, VH-7.
func TestT002(t *testing.T) {
	k := begin(t, "a queue with dead letters needs read at the queue")
	c := k.user(".*", "^$", "^$")
	_, err := c.DeclareQueue(k.ctx, client.Queue{Name: k.name("q"), Arguments: args{"x-dead-letter-exchange": "dlx"}})
	e := k.refusal("declare", err, client.AccessRefused)
	k.same("thing", e.Kind+" "+e.Name, "queue "+k.name("q"))
}

// VH-6.
func TestT003(t *testing.T) {
	k := begin(t, "a queue with dead letters needs write at the exchange")
	c := k.user(".*", "^$", "^"+k.name("q"))
	_, err := c.DeclareQueue(k.ctx, client.Queue{Name: k.name("q"), Arguments: args{"x-dead-letter-exchange": "dlx"}})
	e := k.refusal("declare", err, client.AccessRefused)
	k.same("thing", e.Kind+" "+e.Name, "exchange dlx")
}

// VH-6.
func TestT006(t *testing.T) {
	k := begin(t, "empty patterns match nothing")
	c := k.user("", "", "")
	_, err := c.DeclareQueue(k.ctx, client.Queue{Name: k.name("q")})
	k.class("declare", err, client.AccessRefused)
}

// VH-6.
func TestT007(t *testing.T) {
	k := begin(t, "a passive declare needs any right")
	q := k.queue("q", nil)
	c := k.user("", "^"+q+"$", "")
	_, err := c.DeclareQueue(k.ctx, client.Queue{Name: q, Passive: true})
	k.must(err)
	k.may("", "", "")
	_, err = c.DeclareQueue(k.ctx, client.Queue{Name: q, Passive: true})
	k.class("without right", err, client.AccessRefused)
}

// PUB-1, VH-6.
func TestT008(t *testing.T) {
	k := begin(t, "a publish to the default exchange needs write at amq.default")
	q := k.queue("q", nil)
	c := k.user(".*", "^"+q+"$", ".*")
	_, err := c.PublishOne(k.ctx, client.Message{RoutingKey: q})
	k.class("publish", err, client.AccessRefused)
	k.empty(q)
	k.may("", "^amq\\.default$", "")
	_, err = c.PublishOne(k.ctx, client.Message{RoutingKey: q})
	k.must(err)
}

// MSG-3.
func TestT059(t *testing.T) {
	k := begin(t, "nobody publishes in another's name")
	q := k.queue("q", nil)
	_, err := k.try(q, "m", func(m *client.Message) { m.UserID = "bob" })
	k.class("publish", err, client.PreconditionFailed)
	k.empty(q)
	_, err = k.try(q, "m", func(m *client.Message) { m.UserID = "guest" })
	k.must(err)
}
