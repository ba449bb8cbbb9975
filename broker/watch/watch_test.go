package watch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/watch"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/testnode"
)

// watchTimeout is how long a test waits for events that have happened.
const watchTimeout = time.Minute

// errEnough ends a watch.
var errEnough = errors.New("enough")

// newBroker returns the broker of one real node where clients log in, a context of the node itself, and one of a user
// with a permission for names that begin with app.
func newBroker(t *testing.T) (b *broker.Broker, root, app context.Context) {
	t.Helper()
	b = broker.New(testnode.Start(t), broker.Config{Authenticate: true})
	t.Cleanup(b.Close)
	if err := b.Serving.AwaitServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	root = identity.WithIdentity(t.Context(), identity.Itself())
	if _, err := b.Administration.PutUser(root, administration.PutUser{Name: "u", Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Administration.SetPermission(root, administration.Permission{User: "u", VHost: "/", Configure: "^app", Write: "^app", Read: "^app"}); err != nil {
		t.Fatal(err)
	}
	return b, root, identity.WithIdentity(t.Context(), identity.Of(&catalog.User{Name: "u"}))
}

// names watches until the wanted number of events has come, and returns the names that they are about, sorted, and the
// last cursor.
func names(ctx context.Context, t *testing.T, b *broker.Broker, c watch.Choice, wanted int) (all []string, cursor string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	err := b.Events.Watch(ctx, c, func(events []watch.Event, at string) error {
		for i := range events {
			all = append(all, events[i].Name)
		}
		if cursor = at; len(all) >= wanted {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("%+v: %q, %v", c, all, err)
	}
	slices.Sort(all)
	return all, cursor
}

// ST-5, VH-12: a watch sends the chosen events of what the caller sees, and continues after its cursor.
func TestWatchChooses(t *testing.T) {
	b, root, app := newBroker(t)
	declare := func(queue string) {
		t.Helper()
		if _, err := b.DeclareQueue(root, broker.DeclareQueue{VHost: "/", Name: queue, Durable: true}); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []string{"app.a", "app.b", "other"} {
		declare(q)
	}
	created := watch.Choice{VHost: "/", Kinds: []string{"queue_created"}, History: true}
	named := created
	named.Name = "*.b"
	for what, row := range map[string]struct {
		ctx    context.Context
		choice watch.Choice
		want   string
	}{
		"all": {root, created, "app.a app.b other"}, "by name": {root, named, "app.b"}, "those that the user sees": {app, created, "app.a app.b"},
	} {
		all, _ := names(row.ctx, t, b, row.choice, strings.Count(row.want, " ")+1)
		if got := strings.Join(all, " "); got != row.want {
			t.Errorf("%s: %s, want %s", what, got, row.want)
		}
	}
	_, cursor := names(root, t, b, created, 3)
	declare("app.c")
	created.Cursor, created.History = cursor, false
	if all, _ := names(root, t, b, created, 1); !slices.Equal(all, []string{"app.c"}) {
		t.Errorf("behind the cursor: %q", all)
	}
}

// A choice that makes no sense is refused, and so is a caller without the right to it (AU-3).
func TestWatchRefuses(t *testing.T) {
	b, root, app := newBroker(t)
	for what, row := range map[string]struct {
		ctx    context.Context
		choice watch.Choice
		class  failure.Class
		says   string
	}{
		"an unknown kind":        {root, watch.Choice{Kinds: []string{"nix"}}, failure.PreconditionFailed, `kinds = "nix": there are `},
		"a pattern without end":  {root, watch.Choice{Name: "["}, failure.PreconditionFailed, `name = "[": cannot be read`},
		"a foreign cursor":       {root, watch.Choice{Cursor: "x"}, failure.PreconditionFailed, `cursor = "x": is not one`},
		"a vhost that is absent": {root, watch.Choice{VHost: "v"}, failure.NotFound, `vhost "v"`},
		"audit records":          {app, watch.Choice{VHost: "/", Kinds: []string{"audit"}}, failure.AccessRefused, "needs the tag administrator"},
	} {
		err := b.Events.Watch(row.ctx, row.choice, func([]watch.Event, string) error { return errEnough })
		var e *failure.Error
		if !errors.As(err, &e) || e.Class != row.class || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v; want %v that says %q", what, err, row.class, row.says)
		}
	}
	if _, err := b.Events.Tail(app, watch.Choice{}, 0); err == nil {
		t.Error("a user without a tag reads audit records")
	}
}

// AU-3: the tail has the newest records that were chosen, the oldest of them first, and no more than the limit.
func TestTail(t *testing.T) {
	b, root, _ := newBroker(t)
	for _, vhost := range []string{"a", "b", "c"} {
		act := audit.Act{Operation: audit.OpVHostPut, VHost: vhost, Kind: "vhost", Name: vhost}
		if err := b.Audit.Audited(root, act, func(ctx context.Context) error {
			_, err := b.Administration.PutVHost(ctx, administration.VHost{Name: vhost})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for what, row := range map[string]struct {
		choice watch.Choice
		limit  int
		want   string
	}{
		"all": {watch.Choice{Operation: "vhost.*"}, 0, "a b c"}, "the newest": {watch.Choice{Operation: "vhost.*"}, 2, "b c"},
		"of a vhost": {watch.Choice{VHost: "b"}, 0, "b"}, "of another user": {watch.Choice{User: "u", Operation: "vhost.*"}, 0, ""},
	} {
		tail, err := b.Events.Tail(root, row.choice, row.limit)
		var all []string
		for i := range tail.Events {
			all = append(all, tail.Events[i].Name)
		}
		if got := strings.Join(all, " "); got != row.want || err != nil || len(tail.Silent) > 0 || tail.Cursor == "" {
			t.Errorf("%s: %s, want %s; %+v, %v", what, got, row.want, tail, err)
		}
	}
}
