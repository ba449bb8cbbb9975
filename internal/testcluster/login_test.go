package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

func as(user, password string) func(*client.Config) {
	return func(c *client.Config) { c.Username, c.Password = user, password }
}

// Logging in and what users may do, on a node that asks.
func TestLogin(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	root := openClient(t, c)
	ctx := testContext(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	user := func(name string, tags ...string) *client.Client {
		t.Helper()
		_, err := root.PutUser(ctx, client.User{Name: name, Password: name + "-secret", Tags: tags})
		must(err)
		return openClient(t, c, as(name, name+"-secret"))
	}
	t.Run("refused", func(t *testing.T) { testLoginRefused(t, c, root) })
	t.Run("tags", func(t *testing.T) {
		testTags(t, root, user("plain"), user("watcher", "monitoring"), user("politician", "policymaker"))
	})
	t.Run("permissions", func(t *testing.T) { testPermissions(t, root, user("worker")) })
	t.Run("topic permissions", func(t *testing.T) { testTopicPermissions(t, root, user("topical")) })
	t.Run("user_id", func(t *testing.T) { testUserID(t, root, user("actor", "impersonator")) })
	t.Run("a stream hears of changes", func(t *testing.T) { testRevokedStream(t, root, user("streamer")) })
	t.Run("tokens", func(t *testing.T) { testTokens(t, c, root) })
	t.Run("first user", func(t *testing.T) { testFirstUserStaysGone(t, c, root) })
}

func loginError(ctx context.Context, t *testing.T, c *testcluster.Cluster, more func(*client.Config)) error {
	t.Helper()
	cfg := client.Config{Addresses: c.Addrs()}
	more(&cfg)
	cl, err := client.Dial(ctx, cfg)
	if err == nil {
		cl.Close()
	}
	return err
}

func testLoginRefused(t *testing.T, c *testcluster.Cluster, root *client.Client) {
	ctx := testContext(t)
	if _, err := root.PutUser(ctx, client.User{Name: "nopassword"}); err != nil {
		t.Fatal(err)
	}
	texts := map[string]bool{}
	for _, x := range [][2]string{{"guest", "wrong"}, {"nobody", "guest"}, {"nopassword", "x"}, {"guest", strings.Repeat("x", 2000)}} {
		err := loginError(ctx, t, c, as(x[0], x[1]))
		var e *client.Error
		if !errors.As(err, &e) || e.Code != codes.Unauthenticated || e.Class != client.AccessRefused {
			t.Errorf("%q: %v", x[0], err)
			continue
		}
		texts[e.Text] = true
	}
	if len(texts) != 1 {
		t.Errorf("refusals tell apart: %v", texts)
	}
	// RabbitMQ's hashes log in as well.
	_, err := root.PutUser(ctx, client.User{Name: "moved", Hash: "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", Algorithm: "rabbit_password_hashing_sha256"})
	if err != nil {
		t.Fatal(err)
	}
	if err := loginError(ctx, t, c, as("moved", "test12")); err != nil {
		t.Errorf("a hash of RabbitMQ: %v", err)
	}
	// A changed password ends the old one at once, verified or not.
	if _, err := root.PutUser(ctx, client.User{Name: "moved", Password: "other"}); err != nil {
		t.Fatal(err)
	}
	if err := loginError(ctx, t, c, as("moved", "test12")); err == nil {
		t.Error("the old password still logs in")
	}
	if err := loginError(ctx, t, c, as("moved", "other")); err != nil {
		t.Error(err)
	}
	who, err := root.WhoAmI(ctx)
	if err != nil || who.User != "guest" || fmt.Sprint(who.Tags) != "[administrator]" {
		t.Errorf("whoami: %v, %v", who, err)
	}
}

// refusal checks that a call is refused for lack of rights, and names what.
func refusal(t *testing.T, what string, err error, want string) {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Code != codes.PermissionDenied && e.Code != codes.OK ||
		e.Class != client.AccessRefused && e.Class != client.NotAllowed || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want a refusal with %q", what, err, want)
	}
}

func testTags(t *testing.T, root, plain, watcher, politician *client.Client) {
	ctx := testContext(t)
	p := client.Policy{Name: "p", Pattern: "none", Definition: client.Table{"max-length": 1}}
	calls := map[string]func(*client.Client) error{
		"list users":   func(c *client.Client) error { _, err := client.Collect(c.Users(ctx)); return err },
		"put user":     func(c *client.Client) error { _, err := c.PutUser(ctx, client.User{Name: "new"}); return err },
		"delete user":  func(c *client.Client) error { _, err := c.DeleteUser(ctx, "nix"); return err },
		"put vhost":    func(c *client.Client) error { _, err := c.PutVHost(ctx, client.VHost{Name: "new"}); return err },
		"delete vhost": func(c *client.Client) error { _, err := c.DeleteVHost(ctx, "nix"); return err },
		"set permission": func(c *client.Client) error {
			_, err := c.SetPermission(ctx, client.Permission{User: "plain"})
			return err
		},
		"clear": func(c *client.Client) error {
			_, err := c.ClearPermission(ctx, client.PermissionRef{User: "plain"})
			return err
		},
		"put policy": func(c *client.Client) error { _, err := c.PutPolicy(ctx, p); return err },
		"operator policy": func(c *client.Client) error {
			_, err := c.DeletePolicy(ctx, client.PolicyRef{Name: "nix", Operator: true})
			return err
		},
		"details":        func(c *client.Client) error { _, err := c.ClusterDetails(ctx); return err },
		"list vhosts":    func(c *client.Client) error { _, err := client.Collect(c.VHosts(ctx)); return err },
		"list exchanges": func(c *client.Client) error { _, err := client.Collect(c.Exchanges(ctx, "")); return err },
		"list policies":  func(c *client.Client) error { _, err := client.Collect(c.Policies(ctx, "/")); return err },
		"declare queue":  func(c *client.Client) error { _, err := c.DeclareQueue(ctx, client.Queue{Name: "new"}); return err },
		"publish":        func(c *client.Client) error { _, err := c.PublishOne(ctx, client.Message{RoutingKey: "x"}); return err },
	}
	allowed := map[string][]string{
		"watcher": {"details", "list vhosts", "list exchanges", "list policies"}, "politician": {"list vhosts"},
	}
	for name, cl := range map[string]*client.Client{"plain": plain, "watcher": watcher, "politician": politician} {
		for what, call := range calls {
			err := call(cl)
			if strings.Contains(" "+strings.Join(allowed[name], " ")+" ", " "+what+" ") {
				if err != nil {
					t.Errorf("%s: %s: %v", name, what, err)
				}
				continue
			}
			refusal(t, name+": "+what, err, "user")
		}
	}
	// With a permission in the vhost a policymaker may set policies there, but not operators'.
	if _, err := root.SetPermission(ctx, client.Permission{User: "politician"}); err != nil {
		t.Fatal(err)
	}
	if err := calls["put policy"](politician); err != nil {
		t.Errorf("policymaker: %v", err)
	}
	refusal(t, "operator policy", calls["operator policy"](politician), "administrator")
	if _, err := root.DeletePolicy(ctx, client.PolicyRef{Name: "p"}); err != nil {
		t.Fatal(err)
	}
}

// VH-6, VH-7: each right by itself.
func testPermissions(t *testing.T, root, worker *client.Client) {
	ctx := testContext(t)
	for _, name := range []string{"q", "other"} {
		if _, err := root.DeclareQueue(ctx, client.Queue{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	dlx := client.Queue{Name: "w2", Arguments: client.Table{"x-dead-letter-exchange": "dlx"}}
	declare := func(q client.Queue) func() error {
		return func() error { _, err := worker.DeclareQueue(ctx, q); return err }
	}
	exchange := func(x client.Exchange) func() error {
		return func() error { _, err := worker.DeclareExchange(ctx, x); return err }
	}
	bind := func() error { return worker.Bind(ctx, client.Binding{Source: "amq.fanout", Destination: "q"}) }
	unbind := func() error { return worker.Unbind(ctx, client.Binding{Source: "amq.fanout", Destination: "q"}) }
	publish := func(x string) func() error {
		return func() error {
			_, err := worker.PublishOne(ctx, client.Message{Exchange: x, RoutingKey: "q"})
			return err
		}
	}
	get := func() error { _, err := worker.Get(ctx, client.GetRequest{Queue: "q", AutoAck: true}); return err }
	purge := func() error { _, err := worker.PurgeQueue(ctx, client.QueueRef{Name: "q"}); return err }
	consume := func() error {
		s, err := worker.Consume(ctx, client.ConsumeConfig{Queue: "q"})
		if err == nil {
			s.Close()
		}
		return err
	}
	for _, row := range []struct {
		configure, write, read string
		what                   string
		call                   func() error
		want                   string // of the refusal; "": it is allowed
	}{
		{"", "", "", "declare", declare(client.Queue{Name: "w1"}), "no configure access"},
		{"^w", "", "", "declare", declare(client.Queue{Name: "w1"}), ""},
		{"", "", "", "redeclare", declare(client.Queue{Name: "w1"}), "no configure access"},
		{".*", "^$", "^$", "dead letters: read", declare(dlx), `queue "w2" in vhost "/": user "worker" has no read access`},
		{".*", "^$", "^w", "dead letters: write", declare(dlx), `exchange "dlx" in vhost "/": user "worker" has no write access`},
		{".*", "^dlx$", "^w", "dead letters", declare(dlx), ""},
		{".*", "", "", "redeclare with dead letters", declare(dlx), ""},
		{"", "q", "", "passive", declare(client.Queue{Name: "q", Passive: true}), ""},
		{"", "other", "", "passive", declare(client.Queue{Name: "q", Passive: true}), "no configure, write or read access"},
		{"", "^x1$", "", "exchange", exchange(client.Exchange{Name: "x1", Type: "fanout"}), "no configure access"},
		{"x", "", "x", "alternate", exchange(client.Exchange{Name: "x1", Type: "fanout", Arguments: client.Table{"alternate-exchange": "ae"}}), `"ae"`},
		{"x", "ae", "x", "alternate", exchange(client.Exchange{Name: "x1", Type: "fanout", Arguments: client.Table{"alternate-exchange": "ae"}}), ""},
		{"", "q", "", "bind: read", bind, "no read access"},
		{"", "", "fanout", "bind: write", bind, "no write access"},
		{"", "q", "fanout", "bind", bind, ""},
		{"", "q", "", "unbind: read", unbind, "no read access"},
		{"", "q", "fanout", "unbind", unbind, ""},
		{".*", "^q$", ".*", "default exchange", publish(""), `exchange "amq.default" in vhost "/": user "worker" has no write access`},
		{"", `^amq\.default$`, "", "default exchange", publish(""), ""},
		{".*", "^amq.direct$", ".*", "exchange", publish("amq.fanout"), "no write access"},
		{"", "^amq.fanout$", "", "exchange", publish("amq.fanout"), ""},
		{".*", ".*", "^other$", "get", get, "no read access"},
		{".*", ".*", "^other$", "purge", purge, "no read access"},
		{".*", ".*", "^other$", "consume", consume, "no read access"},
		{"", "", "^q$", "get", get, ""},
		{"", "", "^q$", "purge", purge, ""},
		{"", "", "^q$", "consume", consume, ""},
		{"", ".*", ".*", "delete", func() error { _, err := worker.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "w1"}); return err }, "no configure access"},
		{"^(?!amq\\.).*", "", "", "delete", func() error { _, err := worker.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "w1"}); return err }, ""},
		{"", ".*", ".*", "delete exchange", func() error { return worker.DeleteExchange(ctx, client.DeleteExchangeRequest{Name: "x1"}) }, "no configure access"},
		{"(x+x+)+y", ".*", ".*", "a pattern that backtracks for ever", declare(client.Queue{Name: strings.Repeat("x", 60)}), "no configure access"},
	} {
		p := client.Permission{User: "worker", Configure: row.configure, Write: row.write, Read: row.read}
		if _, err := root.SetPermission(ctx, p); err != nil {
			t.Fatal(err)
		}
		switch err := row.call(); {
		case row.want != "":
			refusal(t, row.what, err, row.want)
		case err != nil:
			t.Errorf("%s with %q %q %q: %v", row.what, row.configure, row.write, row.read, err)
		}
	}
	if _, err := root.ClearPermission(ctx, client.PermissionRef{User: "worker"}); err != nil {
		t.Fatal(err)
	}
	refusal(t, "without permission", get(), "has no permission in it")
}

// VH-8.
func testTopicPermissions(t *testing.T, root, cl *client.Client) {
	ctx := testContext(t)
	_, err1 := root.SetPermission(ctx, client.Permission{User: "topical", Configure: ".*", Write: ".*", Read: ".*"})
	_, err2 := root.SetTopicPermission(ctx, client.TopicPermission{User: "topical", Exchange: "amq.topic", Write: `^{username}\.`, Read: "^mine"})
	_, err3 := cl.DeclareQueue(ctx, client.Queue{Name: "topics"})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	publish := func(key string, h client.Table) error {
		m := client.Message{Exchange: "amq.topic", RoutingKey: key}
		m.Headers = h
		_, err := cl.PublishOne(ctx, m)
		return err
	}
	bind := func(x, key string) error {
		return cl.Bind(ctx, client.Binding{Source: x, Destination: "topics", RoutingKey: key})
	}
	for what, err := range map[string]error{
		"publish": publish("topical.a", nil), "bind": bind("amq.topic", "mine.#"), "other exchange": bind("amq.direct", "yours"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	refusal(t, "publish", publish("guest.a", nil), "no write access to this key")
	refusal(t, "carbon copy", publish("topical.a", client.Table{"CC": []any{"guest.a"}}), "no write access to this key")
	refusal(t, "bind", bind("amq.topic", "yours.#"), "no read access to this key")
}

// MSG-3.
func testUserID(t *testing.T, root, actor *client.Client) {
	ctx := testContext(t)
	if _, err := root.SetPermission(ctx, client.Permission{User: "actor", Write: ".*"}); err != nil {
		t.Fatal(err)
	}
	publish := func(c *client.Client, id string) error {
		m := client.Message{RoutingKey: "nowhere"}
		m.UserID = id
		_, err := c.PublishOne(ctx, m)
		return err
	}
	if err := publish(root, "bob"); client.ClassOf(err) != client.PreconditionFailed || !strings.Contains(err.Error(), "user_id") {
		t.Errorf("as another: %v", err)
	}
	for what, err := range map[string]error{"as itself": publish(root, "guest"), "as an impersonator": publish(actor, "bob")} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A publish stream that runs is held to permissions as they change.
func testRevokedStream(t *testing.T, root, cl *client.Client) {
	ctx := testContext(t)
	set := func(write string) {
		t.Helper()
		if _, err := root.SetPermission(ctx, client.Permission{User: "streamer", Write: write}); err != nil {
			t.Fatal(err)
		}
	}
	set(".*")
	p, err := cl.Publisher(client.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close(ctx) }()
	publish := func() error { _, err := p.Publish(ctx, client.Message{RoutingKey: "nowhere"}); return err }
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	set("^other$")
	refusal(t, "after the change", publish(), "no write access")
	set(".*")
	if err := publish(); err != nil {
		t.Errorf("after the permission came back: %v", err)
	}
	if _, err := root.DeleteUser(ctx, "streamer"); err != nil {
		t.Fatal(err)
	}
	refusal(t, "after the user is gone", publish(), "does not exist any more")
}

func testTokens(t *testing.T, c *testcluster.Cluster, root *client.Client) {
	ctx := testContext(t)
	if _, err := root.PutUser(ctx, client.User{Name: "bearer", Password: "one"}); err != nil {
		t.Fatal(err)
	}
	bearer := openClient(t, c, as("bearer", "one"))
	token := func(text string) func(*client.Config) { return func(c *client.Config) { c.Token = text } }
	minted, err := bearer.MintToken(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	with := openClient(t, c, token(minted.Token))
	if who, err := with.WhoAmI(ctx); err != nil || who.User != "bearer" || who.Expires != minted.Expires {
		t.Errorf("whoami: %v, %v", who, err)
	}
	_, err = with.MintToken(ctx, 0)
	refusal(t, "a token mints a token", err, "log in by password")
	if _, err := bearer.MintToken(ctx, 31*24*time.Hour); client.ClassOf(err) != client.PreconditionFailed {
		t.Errorf("too long a life: %v", err)
	}
	for _, text := range []string{"x", minted.Token + "x", "quorate_" + minted.ID + "_", strings.Replace(minted.Token, "_", "_0", 1)} {
		if loginError(ctx, t, c, token(text)) == nil {
			t.Errorf("%q logs in", text)
		}
	}
	if deleted, err := bearer.RevokeToken(ctx, minted.ID); err != nil || !deleted {
		t.Errorf("revoke: %v, %v", deleted, err)
	}
	if loginError(ctx, t, c, token(minted.Token)) == nil {
		t.Error("a revoked token logs in")
	}
	// Another's token is not to be revoked; it ends with the password.
	roots, err := root.MintToken(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	_, err = bearer.RevokeToken(ctx, roots.ID)
	refusal(t, "another's token", err, "administrator")
	second, err := bearer.MintToken(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.PutUser(ctx, client.User{Name: "bearer", Password: "two"}); err != nil {
		t.Fatal(err)
	}
	if loginError(ctx, t, c, token(second.Token)) == nil {
		t.Error("a token outlives its password")
	}
	short, err := root.MintToken(ctx, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	testcluster.Poll(t, "the token expires", func() error {
		if loginError(ctx, t, c, token(short.Token)) == nil {
			return errors.New("it logs in")
		}
		return nil
	})
}

// VH-1: the first user is made once for all times.
func testFirstUserStaysGone(t *testing.T, c *testcluster.Cluster, root *client.Client) {
	ctx := testContext(t)
	if _, err := root.PutUser(ctx, client.User{Name: "boss", Password: "boss", Tags: []string{"administrator"}}); err != nil {
		t.Fatal(err)
	}
	boss := openClient(t, c, as("boss", "boss"))
	if _, err := boss.DeleteUser(ctx, administration.DefaultUser); err != nil {
		t.Fatal(err)
	}
	c.Kill(0)
	c.Restart(0)
	again := openClient(t, c, as("boss", "boss"))
	users, err := client.Collect(again.Users(ctx))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range users {
		if u.Name == administration.DefaultUser {
			t.Error("the deleted first user is back")
		}
	}
}
