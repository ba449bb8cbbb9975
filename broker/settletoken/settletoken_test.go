package settletoken_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/testnode"
)

// AM-8, DEL-6: a settle token is for the user it was given to, and for administrators, as long as they may read from
// the queue and the queue exists. A message is settled once.
func TestWhoMaySettle(t *testing.T) {
	b := broker.New(testnode.Start(t), broker.Config{Authenticate: true})
	t.Cleanup(b.Close)
	if err := b.Serving.AwaitServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	root := identity.WithIdentity(t.Context(), identity.Itself())
	as := func(user string, tags ...string) context.Context {
		t.Helper()
		if _, err := b.Administration.PutUser(root, administration.PutUser{Name: user, Password: "secret", Tags: tags}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Administration.SetPermission(root, administration.Permission{User: user, VHost: "/", Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
			t.Fatal(err)
		}
		return identity.WithIdentity(t.Context(), identity.Of(&catalog.User{Name: user, Tags: tags}))
	}
	taker, other, admin := as("taker"), as("other"), as("admin", identity.TagAdministrator)
	if _, err := b.DeclareQueue(root, broker.DeclareQueue{VHost: "/", Name: "q", Durable: true}); err != nil {
		t.Fatal(err)
	}
	take := func() string {
		t.Helper()
		sender, err := b.NewSender(taker, &broker.SendRights{})
		if err != nil {
			t.Fatal(err)
		}
		stored := make(chan broker.Result, 1)
		b.Publish(taker, &broker.Publish{VHost: "/", RoutingKey: "q", Sender: sender}, func(r broker.Result) { stored <- r })
		if r := <-stored; r.Queues != 1 {
			t.Fatalf("%+v", r)
		}
		got, err := b.Get(taker, "/", "q", false)
		if err != nil || got.Token == "" {
			t.Fatal(got, err)
		}
		return got.Token
	}
	settle := func(ctx context.Context, token string) error {
		return b.SettleToken(ctx, token, broker.Ack, false, nil, broker.Delay{})
	}
	refused := func(what string, err error, class failure.Class, says string) {
		t.Helper()
		var e *failure.Error
		if !errors.As(err, &e) || e.Class != class || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %v that says %q", what, err, class, says)
		}
	}
	first, second, third := take(), take(), take()
	refused("by another user", settle(other, first), failure.AccessRefused, "was given to another user")
	refused("by a caller without a login", settle(t.Context(), first), failure.AccessRefused, "nobody is logged in")
	refused("with a changed token", settle(taker, "AA"+first), failure.PreconditionFailed, "settle_token")
	for what, row := range map[string]struct {
		ctx   context.Context
		token string
	}{"by its user": {taker, first}, "by an administrator": {admin, second}} {
		if err := settle(row.ctx, row.token); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("twice", settle(taker, first), failure.PreconditionFailed, "settle_token = given at ")
	if _, err := b.Administration.SetPermission(root, administration.Permission{User: "taker", VHost: "/"}); err != nil {
		t.Fatal(err)
	}
	refused("without the right to read", settle(taker, third), failure.AccessRefused, "no read access")
	if _, err := b.DeleteQueue(root, "/", "q", broker.Deletion{Discard: true}); err != nil {
		t.Fatal(err)
	}
	refused("of a queue that was deleted", settle(admin, third), failure.NotFound, "was deleted, and its messages with it")
}
