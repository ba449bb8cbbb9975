package testcluster_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// asItself is a context that may do everything.
func asItself(t *testing.T) context.Context {
	t.Helper()
	return identity.WithIdentity(testContext(t), identity.Itself())
}

// token takes one message of a queue at a node, and its annotations.
func token(t *testing.T, b *broker.Broker, queue string) (string, message.Table) {
	t.Helper()
	got, err := b.Get(asItself(t), "/", queue, false)
	if err != nil || got.Delivery == nil {
		t.Fatal(got, err)
	}
	return got.Token, got.Delivery.Message.Annotations
}

// DEL-6: one decision counts for what Get took, whatever a later one says, on any node.
func TestTokenSettledOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 3)
	ctx := asItself(t)
	p := dial(t, c.Addrs()[0])
	p.declare(t, "q")
	settle := func(node int, token string, o broker.Outcome) error {
		return c.Broker(node).SettleToken(ctx, token, o, false, nil, broker.Delay{})
	}
	for _, first := range []broker.Outcome{broker.Ack, broker.Requeue, broker.Discard} {
		for _, second := range []broker.Outcome{broker.Ack, broker.Requeue, broker.Discard} {
			p.publish(t, "q", 1)
			hold, _ := token(t, c.Broker(0), "q")
			if err := settle(1, hold, first); err != nil {
				t.Fatal(err)
			}
			for node := range 3 {
				var e *failure.Error
				if err := settle(node, hold, second); !errors.As(err, &e) || e.Class != failure.PreconditionFailed || !e.State || e.Arg != "settle_token" {
					t.Errorf("outcome %d after outcome %d at node %d: %v, want PRECONDITION_FAILED about settle_token", second, first, node, err)
				}
			}
			if first != broker.Requeue {
				continue
			}
			again, _ := token(t, c.Broker(2), "q")
			if err := settle(0, hold, broker.Ack); err == nil {
				t.Error("the first hold settles a message that another one has")
			}
			if err := settle(0, again, broker.Ack); err != nil {
				t.Error(err)
			}
		}
	}
	if s := p.stats(t, "q").GetStats(); s.GetMessages() != 0 {
		t.Errorf("messages are left: %v", s)
	}
}

// DEL-11: annotations join those that the message has, by token on any node as in a stream, and
// a later value of a name takes the place of the earlier one.
func TestAnnotationsMerge(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 3)
	ctx := asItself(t)
	p := dial(t, c.Addrs()[0])
	p.declare(t, "dead")
	p.declare(t, "q", text("x-dead-letter-exchange", ""), text("x-dead-letter-routing-key", "dead"))
	p.publish(t, "q", 1)
	table := func(names ...string) (a message.Table) {
		for _, n := range names[1:] {
			a = append(a, message.Field{Name: n, Value: message.String(names[0])})
		}
		return a
	}
	for node, row := range []struct {
		add  message.Table
		want string
	}{
		{table("first", "x-a", "x-b"), "{}"},
		{table("second", "x-b", "x-c"), `{x-a="first" x-b="first"}`},
		{nil, `{x-a="first" x-b="second" x-c="second"}`},
		{table("third", "x-a"), `{x-a="first" x-b="second" x-c="second"}`},
	} {
		hold, has := token(t, c.Broker(node%3), "q")
		if has.String() != row.want {
			t.Errorf("before decision %d the message has %s, want %s", node, has, row.want)
		}
		if err := c.Broker((node+1)%3).SettleToken(ctx, hold, broker.Requeue, false, row.add, broker.Delay{}); err != nil {
			t.Fatal(err)
		}
	}
	// A stream continues with what was given by token, and a discard by token with all of it.
	stream, err := c.Broker(1).Consume(ctx, broker.Consume{VHost: "/", Queue: "q", Prefetch: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	testcluster.Poll(t, "the message, and its return", func() error {
		ds, err := stream.Take(nil, 1, 1<<20)
		if err != nil || len(ds) == 0 {
			return errors.Join(err, errors.New("nothing was delivered"))
		}
		_, err = stream.Settle(&broker.Settlement{IDs: []uint64{ds[0].ID}, Outcome: broker.Requeue, Annotations: table("fourth", "x-c")})
		stream.Close()
		return err
	})
	testcluster.Poll(t, "the message is back", func() error {
		if p.stats(t, "q").GetStats().GetMessagesReady() != 1 {
			return errors.New("it is not")
		}
		return nil
	})
	hold, has := token(t, c.Broker(2), "q")
	if want := `{x-b="second" x-a="third" x-c="fourth"}`; has.String() != want {
		t.Errorf("after the stream the message has %s, want %s", has, want)
	}
	if err := c.Broker(0).SettleToken(ctx, hold, broker.Discard, false, table("fifth", "x-d"), broker.Delay{}); err != nil {
		t.Fatal(err)
	}
	testcluster.Poll(t, "the dead letter", func() error {
		if p.stats(t, "dead").GetStats().GetMessagesReady() != 1 {
			return errors.New("it has not arrived")
		}
		return nil
	})
	if _, has = token(t, c.Broker(1), "dead"); has.String() != `{x-b="second" x-a="third" x-c="fourth" x-d="fifth"}` {
		t.Errorf("the dead letter has %s", has)
	}
}

// AM-8: a settle token counts for the user that took the message, and for administrators; nobody
// makes or changes one.
func TestTokenOfAnotherUser(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	c := testcluster.Start(t, 3)
	ctx, root := testContext(t), openClient(t, c)
	if _, err := root.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	users := map[string]*client.Client{}
	for _, name := range []string{"holder", "thief"} {
		_, err1 := root.PutUser(ctx, client.User{Name: name, Password: "p"})
		_, err2 := root.SetPermission(ctx, client.Permission{User: name, Write: ".*", Read: "^q$"})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		users[name] = openClient(t, c, as(name, "p"))
	}
	take := func() string {
		t.Helper()
		if _, err := root.PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte("m")}); err != nil {
			t.Fatal(err)
		}
		m, err := users["holder"].Get(ctx, client.GetRequest{Queue: "q"})
		if err != nil || m == nil {
			t.Fatal(m, err)
		}
		return m.Token
	}
	hold := take()
	body, err := base64.RawURLEncoding.DecodeString(hold)
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		for _, with := range []byte{1, 3} { // neighbours, as of message ids
			guess := slices.Clone(body)
			guess[i] ^= with
			if err := users["thief"].Settle(ctx, client.SettleRequest{Token: base64.RawURLEncoding.EncodeToString(guess), Decision: client.Decision{Kind: client.Ack}}); client.ClassOf(err) != client.PreconditionFailed {
				t.Fatalf("byte %d changed: %v", i, err)
			}
		}
	}
	for what, err := range map[string]error{
		"settle":             users["thief"].Settle(ctx, client.SettleRequest{Token: hold, Decision: client.Decision{Kind: client.Ack}}),
		"settle and publish": users["thief"].SettleAndPublish(ctx, client.SettleAndPublishRequest{Token: hold}),
	} {
		if client.ClassOf(err) != client.AccessRefused || !strings.Contains(err.Error(), "given to another user") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if q, err := root.GetQueue(ctx, client.QueueRef{Name: "q"}); err != nil || q.Figures().MessagesUnacknowledged != 1 {
		t.Errorf("%v, %v; want one message that is held", q.Stats, err)
	}
	if err := users["holder"].Settle(ctx, client.SettleRequest{Token: hold, Decision: client.Decision{Kind: client.Ack}}); err != nil {
		t.Error(err)
	}
	if err := root.Settle(ctx, client.SettleRequest{Token: take(), Decision: client.Decision{Kind: client.Ack}}); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	if err := users["holder"].Settle(ctx, client.SettleRequest{Token: hold, Decision: client.Decision{Kind: client.Ack}}); client.ClassOf(err) != client.PreconditionFailed || !strings.Contains(err.Error(), "settle_token = given at 20") {
		t.Errorf("what is not held any more: %v", err)
	}
	hold = take()
	if _, err := root.SetPermission(ctx, client.Permission{User: "holder"}); err != nil {
		t.Fatal(err)
	}
	if err := users["holder"].Settle(ctx, client.SettleRequest{Token: hold, Decision: client.Decision{Kind: client.Ack}}); client.ClassOf(err) != client.AccessRefused {
		t.Errorf("without the right to read: %v", err)
	}
}
