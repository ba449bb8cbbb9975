package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// loggedInBroker is like testBroker, with a user who may write to what the pattern matches.
func loggedInBroker(t testing.TB, write string) (*Broker, *catalog.Catalog, context.Context) {
	t.Helper()
	b := testBrokerOf(t, Config{MaxBodyBytes: 1000, Authenticate: true}, func(string) enqueuer { return discarding{} }, "q")
	c := testCatalog(t, "q")
	apply(t, c, &catalog.PutUser{User: catalog.User{Name: "u", UserLimits: catalog.NoUserLimits()}})
	apply(t, c, &catalog.SetPermission{Permission: administration.Permission{User: "u", VHost: "/", Write: write}})
	b.view = c.View
	u, _ := c.View().User("u")
	return b, c, identity.WithIdentity(t.Context(), identity.Of(u))
}

func apply(t testing.TB, c *catalog.Catalog, cmd catalog.Command) {
	t.Helper()
	if r := c.Apply(c.View().Index()+1, 1, cmd); r.Err != nil {
		t.Fatal(r.Err)
	}
}

// The check of a stream's publishes allocates nothing, even if the stream alternates between
// exchanges.
func TestPermittedPublishAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("allocations are not those of a normal build")
	}
	b, _, ctx := loggedInBroker(t, ".*")
	s, err := b.NewSender(ctx, &SendRights{})
	if err != nil {
		t.Fatal(err)
	}
	v := b.view()
	if n := testing.AllocsPerRun(1000, func() {
		for _, x := range []string{"", "amq.fanout", "amq.topic"} {
			if d := s.right(v, "/", x); d.Err != nil {
				t.Fatal(d.Err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// Where clients must log in, a publish without a sender is refused, and so is one without an
// identity.
func TestNobodyPublishes(t *testing.T) {
	b, _, _ := loggedInBroker(t, ".*")
	var e *failure.Error
	if err := publish(t, b, &Publish{VHost: "/", RoutingKey: "q"}).Err; !errors.As(err, &e) || !e.Unauthenticated {
		t.Errorf("without a sender: %v", err)
	}
	if _, err := b.NewSender(t.Context(), &SendRights{}); !errors.As(err, &e) || !e.Unauthenticated {
		t.Errorf("without an identity: %v", err)
	}
}

// PUB-1, MSG-3: a sender is refused for another user's user_id only if nothing else is wrong, apart
// from the limits of a message.
func TestUserIDIsCheckedLast(t *testing.T) {
	b, _, ctx := loggedInBroker(t, "^amq\\.default$|^nix$")
	s, err := b.NewSender(ctx, &SendRights{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name  string
		p     Publish
		class failure.Class
		arg   string
	}{
		{"no right", Publish{Message: message.Message{Exchange: "amq.fanout"}}, failure.AccessRefused, ""},
		{"no exchange", Publish{Message: message.Message{Exchange: "nix"}}, failure.NotFound, ""},
		{"expiration", Publish{Message: message.Message{Properties: message.Properties{Expiration: "soon"}}}, failure.PreconditionFailed, "expiration"},
		{"CC", Publish{Message: message.Message{Headers: message.Table{{Name: "CC", Value: message.String("q")}}}}, failure.PreconditionFailed, "header CC"},
		{"user_id alone", Publish{RoutingKey: "q"}, failure.PreconditionFailed, "user_id"},
	} {
		row.p.VHost, row.p.Sender, row.p.UserID = "/", s, "somebody"
		var e *failure.Error
		if err := publish(t, b, &row.p).Err; !errors.As(err, &e) || e.Class != row.class || row.arg != "" && e.Arg != row.arg {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// VH-6: no exchange and no key is routed to without the right, even while patterns, permissions and
// users change under a sender.
func TestSenderFollowsTheCatalog(t *testing.T) {
	b, c, ctx := loggedInBroker(t, "^amq\\.default$")
	s, err := b.NewSender(ctx, &SendRights{})
	if err != nil {
		t.Fatal(err)
	}
	try := func(x string) error {
		return publish(t, b, &Publish{VHost: "/", RoutingKey: "q", Sender: s, Message: message.Message{Exchange: x}}).Err
	}
	if err := try(""); err != nil {
		t.Error(err)
	}
	if try("amq.fanout") == nil {
		t.Error("an exchange that does not match is published to")
	}
	apply(t, c, &catalog.SetPermission{Permission: administration.Permission{User: "u", VHost: "/", Write: "fanout"}})
	if err := try("amq.fanout"); err != nil {
		t.Error(err)
	}
	if try("") == nil {
		t.Error("the default exchange is published to without the right")
	}
	apply(t, c, &catalog.ClearPermission{User: "u", VHost: "/"})
	if try("amq.fanout") == nil {
		t.Error("a cleared permission still counts")
	}
}

// VH-6: the senders of a connection share their decisions about rights. The number of decisions is
// limited for all of them together, and no user gets another one's rights.
func TestSendersShareRights(t *testing.T) {
	b, c, ctx := loggedInBroker(t, "^x")
	apply(t, c, &catalog.PutUser{User: catalog.User{Name: "other", UserLimits: catalog.NoUserLimits()}})
	other, _ := c.View().User("other")
	var rights SendRights
	senders := make([]*Sender, 0, 40)
	for range cap(senders) {
		s, err := b.NewSender(ctx, &rights)
		if err != nil {
			t.Fatal(err)
		}
		senders = append(senders, s)
	}
	another, err := b.NewSender(identity.WithIdentity(t.Context(), identity.Of(other)), &rights)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i, s := range senders {
		all.Go(func() {
			for x := range maxDecided / 4 {
				if err := s.right(b.view(), "/", fmt.Sprint("x", i, x)).Err; err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := len(rights.decided); n == 0 || n > maxDecided {
		t.Errorf("%d exchanges are remembered, want 1 to %d", n, maxDecided)
	}
	for x := range maxDecided {
		if another.right(b.view(), "/", fmt.Sprint("x", x/4, x%4)).Err == nil {
			t.Fatal("a user has the rights of another one")
		}
	}
}
