package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// VH-12: who has no tag sees by name what one of its patterns matches, who has one the vhosts
// that it has a permission in, and monitoring all.
func TestSight(t *testing.T) {
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
	for _, name := range []string{"app.q", "app.r", "other.q"} {
		_, err := root.DeclareQueue(ctx, client.Queue{Name: name, Arguments: client.Table{
			"x-dead-letter-exchange": "app.x", "x-dead-letter-routing-key": "k",
		}})
		must(err)
	}
	for _, name := range []string{"app.x", "other.x"} {
		_, err := root.DeclareExchange(ctx, client.Exchange{Name: name, Type: "topic"})
		must(err)
		must(root.Bind(ctx, client.Binding{Source: name, Destination: "app.r", RoutingKey: "#"}))
		must(root.Bind(ctx, client.Binding{Source: name, Destination: "other.q", RoutingKey: "#"}))
	}
	_, err := root.PutPolicy(ctx, client.Policy{Name: "p", Pattern: "none", Definition: client.Table{"max-length": 1}})
	must(err)
	_, err = root.DeclareExchange(ctx, client.Exchange{Name: "app.z", Type: "topic"})
	must(err)
	must(root.DeleteExchange(ctx, client.DeleteExchangeRequest{Name: "app.z"}))
	users := map[string]*client.Client{}
	for name, u := range map[string]struct {
		tags       []string
		permission string // pattern to read; "": none
	}{
		"plain": {nil, "^app"}, "impersonator": {[]string{"impersonator"}, "^app"}, "outsider": {nil, ""},
		"manager": {[]string{"management"}, "^$"}, "politician": {[]string{"policymaker"}, "^$"}, "lost manager": {[]string{"management"}, ""},
		"watcher": {[]string{"monitoring"}, ""},
	} {
		_, err := root.PutUser(ctx, client.User{Name: name, Password: "p", Tags: u.tags})
		must(err)
		if u.permission != "" {
			_, err = root.SetPermission(ctx, client.Permission{User: name, Configure: "^$", Write: "^$", Read: u.permission})
			must(err)
		}
		users[name] = openClient(t, c, as(name, "p"))
	}
	const all, some, nothing = "all", "some", "nothing"
	for _, row := range []struct {
		what string
		look func(*client.Client) (string, error)
		some string // what patterns match; "": that is refused
		all  string
	}{
		{"queues", seenQueues(ctx), "app.q app.r", "app.q app.r other.q"},
		{"exchanges", seenExchanges(ctx), "app.x", "app.x other.x"},
		{"bindings", seenBindings(ctx), "app.x>app.r", "app.x>app.r app.x>other.q other.x>app.r other.x>other.q"},
		{"events", seenEvents(ctx), "app.q app.r app.x app.z", "app.q app.r app.x app.z other.q other.x p"},
		{"a queue", func(c *client.Client) (string, error) {
			q, err := c.GetQueue(ctx, client.QueueRef{Name: "app.q"})
			return q.Name, err
		}, "app.q", "app.q"},
		{"a strange queue", func(c *client.Client) (string, error) {
			q, err := c.GetQueue(ctx, client.QueueRef{Name: "other.q"})
			return q.Name, err
		}, "", "other.q"},
		{"policies", func(c *client.Client) (string, error) {
			p, err := client.Collect(c.Policies(ctx, "/"))
			return fmt.Sprint(len(p)), err
		}, "", "1"},
		{"consumers", func(c *client.Client) (string, error) {
			_, err := client.Collect(c.Consumers(ctx, client.ListConsumersRequest{VHost: "/"}))
			return "", err
		}, "", ""},
		{"routing", seenRoutes(ctx, "app.x"), "app.r", "app.r other.q steps"},
		{"strange routing", seenRoutes(ctx, "other.x"), "", "app.r other.q steps"},
	} {
		for name, sees := range map[string]string{
			"plain": some, "impersonator": some, "outsider": nothing, "manager": all, "politician": all, "lost manager": nothing, "watcher": all,
		} {
			want, refused := map[string]string{all: row.all, some: row.some}[sees], sees == nothing || sees == some && row.some == ""
			got, err := row.look(users[name])
			if class := client.ClassOf(err); refused && class != client.AccessRefused && class != client.NotAllowed || !refused && (err != nil || got != want) {
				t.Errorf("%s by %s: %q, %v; want %q, refused: %v", row.what, name, got, err, want, refused)
			}
		}
	}
	x, err := users["plain"].ExplainDeadLetter(ctx, client.ExplainDeadLetterRequest{Queue: "app.q"})
	if err != nil || len(x.Targets) != 1 || x.Targets[0].Name != "app.r" || len(x.Steps) != 0 {
		t.Errorf("%v, %v; want app.r alone", x, err)
	}
	testVhostsSeen(t, users)
}

// testVhostsSeen: all vhosts take the tag monitoring, own ones management.
func testVhostsSeen(t *testing.T, users map[string]*client.Client) {
	ctx := testContext(t)
	for name, want := range map[string]int{"manager": 1, "lost manager": 0, "watcher": 1} {
		if got, err := client.Collect(users[name].VHosts(ctx)); err != nil || len(got) != want {
			t.Errorf("%s sees %d vhosts, %v", name, len(got), err)
		}
	}
	if _, err := client.Collect(users["plain"].VHosts(ctx)); client.ClassOf(err) != client.AccessRefused {
		t.Errorf("vhosts by plain: %v", err)
	}
	for _, name := range []string{"plain", "manager"} {
		if _, err := client.Collect(users[name].Queues(ctx, client.ListQueuesRequest{})); client.ClassOf(err) != client.AccessRefused {
			t.Errorf("queues of all vhosts by %s: %v", name, err)
		}
	}
	connections, err := client.Collect(users["manager"].Connections(ctx, client.ListConnectionsRequest{}))
	if err != nil || len(connections) == 0 {
		t.Errorf("%v, %v", connections, err)
	}
	for _, x := range connections {
		if x.User != "manager" {
			t.Errorf("manager sees a connection of %s", x.User)
		}
	}
}

// own sorts names, without those that every vhost has.
func own(names []string) string {
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" || strings.HasPrefix(n, "amq.") })
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

func seenQueues(ctx context.Context) func(*client.Client) (string, error) {
	return func(c *client.Client) (string, error) {
		var names []string
		for q, err := range c.Queues(ctx, client.ListQueuesRequest{VHost: "/", WithStats: true}) {
			if err != nil {
				return "", err
			}
			names = append(names, q.Name)
		}
		return own(names), nil
	}
}

func seenExchanges(ctx context.Context) func(*client.Client) (string, error) {
	return func(c *client.Client) (string, error) {
		var names []string
		for x, err := range c.Exchanges(ctx, "/") {
			if err != nil {
				return "", err
			}
			names = append(names, x.Name)
		}
		return own(names), nil
	}
}

func seenBindings(ctx context.Context) func(*client.Client) (string, error) {
	return func(c *client.Client) (string, error) {
		var names []string
		for x, err := range c.Bindings(ctx, "/") {
			if err != nil {
				return "", err
			}
			names = append(names, x.Source+">"+x.Destination)
		}
		return own(names), nil
	}
}

func seenRoutes(ctx context.Context, exchange string) func(*client.Client) (string, error) {
	return func(c *client.Client) (string, error) {
		r, err := c.ExplainRouting(ctx, client.ExplainRoutingRequest{Exchange: exchange, RoutingKeys: []string{"k"}})
		var names []string
		for _, q := range r.Queues {
			names = append(names, q.Name)
		}
		if len(r.Steps) > 0 {
			names = append(names, "steps")
		}
		return own(names), err
	}
}

// seenEvents are the names in the events that the catalog has had, bindings left out. The last is
// about app.z.
func seenEvents(ctx context.Context) func(*client.Client) (string, error) {
	return func(c *client.Client) (string, error) {
		done := errors.New("enough")
		var names []string
		deleted := false
		err := c.WatchEvents(ctx, client.WatchEventsRequest{VHost: "/", History: true, Kinds: []string{"queue_created", "exchange_created", "binding_created", "policy_created", "exchange_deleted"}}, func(events []client.Event) error {
			for _, e := range events {
				deleted = deleted || e.Kind == "exchange_deleted"
				if !strings.HasPrefix(e.Kind, "binding") {
					names = append(names, e.Name)
				}
			}
			if deleted {
				return done
			}
			return nil
		})
		if !errors.Is(err, done) {
			return "", err
		}
		return own(names), nil
	}
}
