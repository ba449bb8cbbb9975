package testcluster_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

func openClient(t *testing.T, c *testcluster.Cluster, more ...func(*client.Config)) *client.Client {
	t.Helper()
	cfg := client.Config{Addresses: c.Addrs()}
	for _, m := range more {
		m(&cfg)
	}
	cl, err := client.Dial(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// Vhosts, users and permissions over the API, on three nodes.
func TestAccess(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	cl := openClient(t, c)
	t.Run("bad input", func(t *testing.T) { testBadAccess(t, cl) })
	t.Run("lists", func(t *testing.T) { testAccessLists(t, cl) })
	t.Run("vhost limits", func(t *testing.T) { testVhostLimits(t, cl) })
	t.Run("default type", func(t *testing.T) { testDefaultType(t, cl) })
	t.Run("delete a vhost", func(t *testing.T) { testDeleteVhost(t, c, cl) })
}

// All faulty calls are refused by class, say what is wrong, and store nothing.
func testBadAccess(t *testing.T, cl *client.Client) {
	ctx := testContext(t)
	minus := int64(-2)
	long := strings.Repeat("n", 256)
	vhost := func(h client.VHost) func() error {
		return func() error { _, err := cl.PutVHost(ctx, h); return err }
	}
	user := func(u client.User) func() error {
		return func() error { _, err := cl.PutUser(ctx, u); return err }
	}
	permission := func(p client.Permission) func() error {
		return func() error { _, err := cl.SetPermission(ctx, p); return err }
	}
	topic := func(p client.TopicPermission) func() error {
		return func() error { _, err := cl.SetTopicPermission(ctx, p); return err }
	}
	if _, err := cl.PutUser(ctx, client.User{Name: "known"}); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cl.DeleteUser(ctx, "known") }()
	before := accessState(t, cl)
	for _, row := range []struct {
		name  string
		call  func() error
		class client.Class
		want  string
	}{
		{"no name", vhost(client.VHost{}), client.PreconditionFailed, "name: is empty"},
		{"long name", vhost(client.VHost{Name: long}), client.PreconditionFailed, "256 bytes"},
		{"NUL", vhost(client.VHost{Name: "a\x00b"}), client.PreconditionFailed, `contains "\x00"`},
		{"CR", vhost(client.VHost{Name: "a\rb"}), client.PreconditionFailed, `contains "\r"`},
		{"queue type", vhost(client.VHost{Name: "v", DefaultQueueType: "stream"}), client.PreconditionFailed, "default_queue_type"},
		{"description", vhost(client.VHost{Name: "v", Description: strings.Repeat("d", 2000)}), client.PreconditionFailed, "description"},
		{"tags", vhost(client.VHost{Name: "v", Tags: make([]string, 101)}), client.PreconditionFailed, "tags"},
		{"limit", vhost(client.VHost{Name: "v", Limits: client.VHostLimits{MaxQueues: &minus}}), client.PreconditionFailed, "max-queues = -2"},
		{"limits of no vhost", func() error {
			return cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "nix", Limits: client.VHostLimits{}})
		}, client.NotFound, `vhost "nix"`},
		{"set limit", func() error {
			return cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "/", Limits: client.VHostLimits{MaxConnections: &minus}})
		}, client.PreconditionFailed, "max-connections = -2"},
		{"user without name", user(client.User{}), client.PreconditionFailed, "name: is empty"},
		{"long user", user(client.User{Name: long}), client.PreconditionFailed, "256 bytes"},
		{"colon", user(client.User{Name: "a:b"}), client.PreconditionFailed, `contains ":"`},
		{"line feed", user(client.User{Name: "a\nb"}), client.PreconditionFailed, `contains "\n"`},
		{"long password", user(client.User{Name: "u", Password: strings.Repeat("p", 1025)}), client.PreconditionFailed, "password = 1025 bytes"},
		{"both", user(client.User{Name: "u", Password: "p", Hash: "h"}), client.PreconditionFailed, "one of them"},
		{"algorithm", user(client.User{Name: "u", Hash: "h", Algorithm: "md5"}), client.PreconditionFailed, `"md5" is unknown`},
		{"hash", user(client.User{Name: "u", Hash: "h", Algorithm: "rabbit_password_hashing_sha256"}), client.PreconditionFailed, "base64"},
		{"user limit", func() error {
			return cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "known", Limits: client.UserLimits{MaxChannels: &minus}})
		}, client.PreconditionFailed, "max-channels = -2"},
		{"limits of nobody", func() error {
			return cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "nobody", Limits: client.UserLimits{}})
		}, client.NotFound, `user "nobody"`},
		{"pattern", permission(client.Permission{User: "known", Configure: "("}), client.PreconditionFailed, "configure"},
		{"two patterns", permission(client.Permission{User: "known", Write: "[", Read: "*"}), client.PreconditionFailed, "also read"},
		{"long pattern", permission(client.Permission{User: "known", Read: strings.Repeat("x", 5000)}), client.PreconditionFailed, "5000 bytes"},
		{"permission of nobody", permission(client.Permission{User: "nobody"}), client.NotFound, `user "nobody"`},
		{"permission in no vhost", permission(client.Permission{User: "known", VHost: "nix"}), client.NotFound, `vhost "nix"`},
		{"clear of nobody", func() error { _, err := cl.ClearPermission(ctx, client.PermissionRef{User: "nobody"}); return err }, client.NotFound, `user "nobody"`},
		{"clear in no vhost", func() error {
			_, err := cl.ClearPermission(ctx, client.PermissionRef{VHost: "nix", User: "known"})
			return err
		}, client.NotFound, `vhost "nix"`},
		{"list of no vhost", func() error {
			_, err := client.Collect(cl.Permissions(ctx, client.ListPermissionsRequest{VHost: "nix"}))
			return err
		}, client.NotFound, `vhost "nix"`},
		{"topic pattern", topic(client.TopicPermission{User: "known", Exchange: "amq.topic", Write: "("}), client.PreconditionFailed, "write"},
		{"no exchange", topic(client.TopicPermission{User: "known", Exchange: "nix"}), client.NotFound, `exchange "nix"`},
		{"no topic exchange", topic(client.TopicPermission{User: "known", Exchange: "amq.direct"}), client.PreconditionFailed, "topic exchange"},
		{"topic of nobody", topic(client.TopicPermission{User: "nobody", Exchange: "amq.topic"}), client.NotFound, `user "nobody"`},
		{"clear topic of nobody", func() error {
			_, err := cl.ClearTopicPermission(ctx, client.TopicPermissionRef{User: "nobody"})
			return err
		}, client.NotFound, `user "nobody"`},
		{"topics of no vhost", func() error {
			_, err := client.Collect(cl.TopicPermissions(ctx, client.ListPermissionsRequest{VHost: "nix"}))
			return err
		}, client.NotFound, `vhost "nix"`},
	} {
		err := row.call()
		if client.ClassOf(err) != row.class || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %s with %q", row.name, err, row.class, row.want)
		}
	}
	if after := accessState(t, cl); after != before {
		t.Errorf("something was stored: %s\nbefore: %s", after, before)
	}
}

// accessState returns all vhosts, users and permissions.
func accessState(t *testing.T, cl *client.Client) string {
	t.Helper()
	ctx := testContext(t)
	vhosts, err1 := client.Collect(cl.VHosts(ctx))
	users, err2 := client.Collect(cl.Users(ctx))
	permissions, err3 := client.Collect(cl.Permissions(ctx, client.ListPermissionsRequest{}))
	topics, err4 := client.Collect(cl.TopicPermissions(ctx, client.ListPermissionsRequest{}))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	out := ""
	for _, h := range vhosts {
		out += fmt.Sprintf("vhost %s %s %d %v; ", h.Name, h.DefaultQueueType, valueOf(h.Limits.MaxQueues), h.Tags)
	}
	for _, u := range users {
		out += fmt.Sprintf("user %s %v %s %d; ", u.Name, u.Tags, u.HashingAlgorithm, valueOf(u.Limits.MaxChannels))
	}
	for _, p := range permissions {
		out += fmt.Sprintf("permission %s %s %s %s %s; ", p.VHost, p.User, p.Configure, p.Write, p.Read)
	}
	for _, p := range topics {
		out += fmt.Sprintf("topic %s %s %s %s %s; ", p.VHost, p.User, p.Exchange, p.Write, p.Read)
	}
	return out
}

// valueOf returns 0 for no limit.
func valueOf(limit *int64) int64 {
	if limit == nil {
		return 0
	}
	return *limit
}

func testAccessLists(t *testing.T, cl *client.Client) {
	ctx := testContext(t)
	seven := int64(7)
	created := func(want bool) func(bool, error) {
		return func(got bool, err error) {
			t.Helper()
			if err != nil || got != want {
				t.Fatalf("%v, %v; want %v", got, err, want)
			}
		}
	}
	before := accessState(t, cl)
	created(true)(cl.PutVHost(ctx, client.VHost{Name: "v", Tags: []string{"a", "b"}, Limits: client.VHostLimits{MaxQueues: &seven}}))
	created(false)(cl.PutVHost(ctx, client.VHost{Name: "v", Tags: []string{"c"}}))
	created(true)(cl.PutUser(ctx, client.User{Name: "u", Password: "secret", Tags: []string{"monitoring"}}))
	created(false)(cl.PutUser(ctx, client.User{
		Name: "u", Hash: "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", Algorithm: "rabbit_password_hashing_sha256",
	}))
	if err := cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: "u", Limits: client.UserLimits{MaxChannels: &seven}}); err != nil {
		t.Fatal(err)
	}
	created(true)(cl.SetPermission(ctx, client.Permission{User: "u", VHost: "v", Configure: "^(?!amq\\.).*", Read: ".*"}))
	created(false)(cl.SetPermission(ctx, client.Permission{User: "u", VHost: "v", Configure: "c", Write: "w", Read: "r"}))
	created(true)(cl.SetTopicPermission(ctx, client.TopicPermission{User: "u", VHost: "v", Exchange: "amq.topic", Write: "w", Read: "r"}))
	for _, want := range []string{
		"vhost v quorum 7 [c]; ", "user u [] rabbit_password_hashing_sha256 7; ", "permission v u c w r; ", "topic v u amq.topic w r; ",
	} {
		if got := accessState(t, cl); !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if none, err := client.Collect(cl.Permissions(ctx, client.ListPermissionsRequest{VHost: "v", User: "other"})); err != nil || len(none) > 0 {
		t.Errorf("permissions of another: %v, %v", none, err)
	}
	created(true)(cl.ClearTopicPermission(ctx, client.TopicPermissionRef{VHost: "v", User: "u"}))
	created(true)(cl.ClearPermission(ctx, client.PermissionRef{VHost: "v", User: "u"}))
	created(false)(cl.ClearPermission(ctx, client.PermissionRef{VHost: "v", User: "u"}))
	created(true)(cl.DeleteUser(ctx, "u"))
	created(false)(cl.DeleteUser(ctx, "u"))
	created(true)(cl.DeleteVHost(ctx, "v"))
	created(false)(cl.DeleteVHost(ctx, "v"))
	if after := accessState(t, cl); after != before {
		t.Errorf("left: %s\nbefore: %s", after, before)
	}
}

// VH-4: a new queue above the limit is refused, an old one may be declared again.
func testVhostLimits(t *testing.T, cl *client.Client) {
	ctx := testContext(t)
	one, none := int64(1), int64(0)
	if _, err := cl.PutVHost(ctx, client.VHost{Name: "limited", Limits: client.VHostLimits{MaxQueues: &one}}); err != nil {
		t.Fatal(err)
	}
	declare := func(name string) error {
		_, err := cl.DeclareQueue(ctx, client.Queue{VHost: "limited", Name: name})
		return err
	}
	if err := declare("a"); err != nil {
		t.Fatal(err)
	}
	refused := declare("b")
	if e, is := errors.AsType[*client.Error](refused); !is || e.Class != client.PreconditionFailed || e.Code != codes.FailedPrecondition || e.Arg != "max-queues" {
		t.Errorf("a second queue: %v", refused)
	}
	if err := declare("a"); err != nil {
		t.Errorf("redeclare: %v", err)
	}
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "limited", Limits: client.VHostLimits{MaxQueues: &none}}); err != nil {
		t.Fatal(err)
	}
	if err := declare("c"); client.ClassOf(err) != client.PreconditionFailed {
		t.Errorf("a queue where none is allowed: %v", err)
	}
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "limited", Limits: client.VHostLimits{}}); err != nil {
		t.Fatal(err)
	}
	if err := declare("c"); err != nil {
		t.Errorf("without limit: %v", err)
	}
}

// Q-3, VH-3: the vhost gives the type of a declaration that names none.
func testDefaultType(t *testing.T, cl *client.Client) {
	ctx := testContext(t)
	for _, kind := range []string{"quorum", "classic"} {
		if _, err := cl.PutVHost(ctx, client.VHost{Name: kind, DefaultQueueType: kind}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := cl.DeclareQueue(ctx, client.Queue{VHost: kind, Name: "q"}); err != nil {
				t.Fatal(err)
			}
		}
		if q, err := cl.GetQueue(ctx, client.QueueRef{VHost: kind, Name: "q"}); err != nil || q.Type != kind {
			t.Errorf("type %s, %v; want %s", q.Type, err, kind)
		}
	}
}

// VH-2: with a vhost its queues and consumers go, and nothing outside of it.
func testDeleteVhost(t *testing.T, c *testcluster.Cluster, cl *client.Client) {
	ctx := testContext(t)
	put := func(protected bool) {
		t.Helper()
		if _, err := cl.PutVHost(ctx, client.VHost{Name: "gone", Protected: protected}); err != nil {
			t.Fatal(err)
		}
	}
	put(true)
	for _, vhost := range []string{"gone", "/"} {
		if _, err := cl.DeclareQueue(ctx, client.Queue{VHost: vhost, Name: "mine"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cl.DeleteVHost(ctx, "gone"); client.ClassOf(err) != client.PreconditionFailed || !strings.Contains(err.Error(), "protected") {
		t.Fatalf("a protected vhost: %v", err)
	}
	put(false)
	consumer, err := cl.Consume(ctx, client.ConsumeConfig{VHost: "gone", Queue: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	if _, err := cl.DeleteVHost(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Receive(ctx); !errors.Is(err, client.ErrCancelled) {
		t.Errorf("the consumer: %v, want that it is cancelled", err)
	}
	if _, err := cl.GetQueue(ctx, client.QueueRef{VHost: "gone", Name: "mine"}); client.ClassOf(err) != client.NotFound {
		t.Errorf("its queue: %v", err)
	}
	if _, err := cl.GetQueue(ctx, client.QueueRef{VHost: "/", Name: "mine"}); err != nil {
		t.Errorf("another vhost's queue: %v", err)
	}
	for i := range c.Addrs() {
		testcluster.Poll(t, "no node has a queue of the vhost", func() error {
			_, _, err := c.Broker(i).Queues.Page(ctx, "gone", 0, "", false)
			if err == nil {
				return errors.New("it has the vhost")
			}
			return nil
		})
	}
}
