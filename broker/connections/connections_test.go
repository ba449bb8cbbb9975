package connections_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/testnode"
)

// waitTimeout is how long a test waits for something that happens soon.
const waitTimeout = time.Minute

// node is a broker on one real node where clients log in: u, who has no tag, m with the tag management, and o with
// monitoring.
type node struct {
	*broker.Broker
	t    *testing.T
	root context.Context // may do everything
}

func newNode(t *testing.T) *node {
	t.Helper()
	b := broker.New(testnode.Start(t), broker.Config{Authenticate: true})
	t.Cleanup(b.Close)
	if err := b.Serving.AwaitServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := &node{b, t, identity.WithIdentity(t.Context(), identity.Itself())}
	for user, tags := range map[string][]string{"u": nil, "m": {identity.TagManagement}, "o": {identity.TagMonitoring}} {
		if _, err := b.Administration.PutUser(n.root, administration.PutUser{Name: user, Password: "secret", Tags: tags}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Administration.SetPermission(n.root, administration.Permission{User: user, VHost: "/", Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// as returns the context of calls by the user.
func (n *node) as(user string) context.Context {
	n.t.Helper()
	all, err := n.Administration.ListUsers()
	if err != nil {
		n.t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(u administration.User) bool { return u.Name == user })
	if i < 0 {
		n.t.Fatalf("there is no user %q", user)
	}
	return identity.WithIdentity(n.t.Context(), identity.Of(&catalog.User{Name: user, Tags: all[i].Tags}))
}

// is fails unless err is an error of the class whose text contains says.
func is(t *testing.T, what string, err error, class failure.Class, says string) {
	t.Helper()
	var e *failure.Error
	if !errors.As(err, &e) || e.Class != class || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v; want %v that says %q", what, err, class, says)
	}
}

// an exclusive queue belongs to its connection, and to every caller that knows the connection's id. It is deleted
// when the connection ends, and from then on no other one can be declared for that connection.
func TestExclusiveQueues(t *testing.T) {
	n := newNode(t)
	mine, other := n.Connections.Connect(), n.Connections.Connect()
	defer other.Close()
	ctx := connections.WithConnection(n.as("u"), mine)
	if _, err := n.DeclareQueue(ctx, broker.DeclareQueue{VHost: "/", Name: "q", Exclusive: true, Durable: true}); err != nil {
		t.Fatal(err)
	}
	text, err := mine.ID()
	if err != nil {
		t.Fatal(err)
	}
	byID, err := connections.WithConnectionID(n.as("u"), text)
	if err != nil {
		t.Fatal(err)
	}
	for what, row := range map[string]struct {
		ctx    context.Context
		locked bool
	}{
		"by its connection": {ctx, false}, "by the connection's id": {byID, false},
		"by another connection": {connections.WithConnection(n.as("u"), other), true}, "by none": {n.as("u"), true},
	} {
		_, err := n.PurgeQueue(row.ctx, "/", "q")
		if row.locked {
			is(t, what, err, failure.ResourceLocked, `queue "q"`)
		} else if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	within, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	if mine.Finish(within); within.Err() != nil {
		t.Fatal("the queue outlives its connection")
	}
	if found, _, err := n.Queues.Page(n.root, "/", 0, "", false); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	_, err = n.DeclareQueue(ctx, broker.DeclareQueue{VHost: "/", Name: "q", Exclusive: true, Durable: true})
	is(t, "for a connection that has ended", err, failure.PreconditionFailed, "has ended; connect again")
}

// Only what Connect returned is accepted as the id of a connection.
func TestConnectionIDs(t *testing.T) {
	for text, ok := range map[string]bool{
		"1.key.n": true, "1.key.node.with.dots": true, "": false, "1": false, "1.key": false, "1..n": false, "1.key.": false, "x.key.n": false, ".key.n": false,
	} {
		_, err := connections.WithConnectionID(t.Context(), text)
		if ok && err != nil {
			t.Errorf("%q: %v", text, err)
		} else if !ok {
			is(t, text, err, failure.PreconditionFailed, "is not an id that Connect gave")
		}
	}
}

// VH-4: one more above a limit of a user or a vhost is refused and counted, and the error names the limit. When one
// ends, there is room again.
func TestLimitsRefuse(t *testing.T) {
	n := newNode(t)
	ctx := n.as("u")
	connect := func() (func(), error) {
		c := n.Connections.Connect()
		_, err := n.Connections.EnterUser(connections.WithConnection(ctx, c))
		return c.Close, err
	}
	enter := func() (func(), error) {
		c := n.Connections.Connect()
		return c.Close, n.Connections.OpenVHost(connections.WithConnection(ctx, c), "/")
	}
	channel := func() (func(), error) { return n.Connections.OpenChannel(ctx) }
	channelIn := func() (func(), error) { return n.Connections.OpenChannelIn(ctx, "/") }
	consumer := func() (func(), error) { return n.Connections.OpenConsumer(ctx, "/", 1) }
	for _, row := range []struct {
		scope, limit string
		open         func() (end func(), err error)
	}{
		{"user", limits.Connections, connect},
		{"user", limits.Channels, channel},
		{"user", limits.Consumers, consumer},
		{"vhost", limits.Connections, enter},
		{"vhost", limits.Channels, channelIn},
		{"vhost", limits.Consumers, consumer},
	} {
		t.Run(row.scope+" "+row.limit, func(t *testing.T) {
			set := func(value int64) {
				t.Helper()
				var err error
				if row.scope == "user" {
					l := administration.NoUserLimits()
					l.SetLimit(row.limit, value)
					err = n.Administration.SetUserLimits(n.root, "u", l)
				} else {
					l := administration.NoVHostLimits()
					l.SetLimit(row.limit, value)
					err = n.Administration.SetVHostLimits(n.root, "/", l)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			set(1)
			defer set(catalog.Unlimited)
			end, err := row.open()
			if err != nil {
				t.Fatal(err)
			}
			_, err = row.open()
			is(t, "one more", err, failure.NotAllowed, row.limit+" = 1: so many are there already")
			counts, _ := n.Limits.Counts()
			i := slices.IndexFunc(counts, func(c limits.Count) bool { return c.Scope == row.scope && c.Quota == row.limit })
			if i < 0 || counts[i].Reached != 1 {
				t.Errorf("counts %+v", counts)
			}
			end()
			if end, err = row.open(); err != nil {
				t.Error("after one has ended: ", err)
			} else {
				end()
			}
		})
	}
	is(t, "a vhost that does not exist", n.Connections.OpenVHost(ctx, "nix"), failure.NotAllowed, "does not exist")
}

// VH-12: a user with the tag management sees its own connections, and one with monitoring sees all. A connection is
// ended by its id, or by its name if no other has it, and with a reason.
func TestShowsAndEndsConnections(t *testing.T) {
	n := newNode(t)
	ended := map[string]connections.Closing{}
	// A client that takes the name of another connection does not stand for that connection.
	clientNames := map[string]string{"second": "worker", "twice": "first"}
	show := func(user, name string) {
		c := n.Connections.Connect()
		t.Cleanup(c.Close)
		if _, err := n.Connections.EnterUser(connections.WithConnection(n.as(user), c)); err != nil {
			t.Fatal(err)
		}
		c.Show(func() connections.ConnectionInfo {
			return connections.ConnectionInfo{Name: name, VHost: "/", State: connections.ConnectionRunning, ClientName: clientNames[name]}
		},
			func(why connections.Closing) { ended[name] = why })
	}
	show("u", "first")
	show("m", "second")
	show("u", "twice")
	show("u", "twice")
	for what, row := range map[string]struct{ as, vhost, user, want string }{
		"all": {"o", "", "", "first second twice twice"}, "of a user": {"o", "", "u", "first twice twice"}, "of a vhost": {"o", "/", "m", "second"},
		"of another vhost": {"o", "v", "", ""}, "its own": {"m", "", "", "second"}, "not those of others": {"m", "", "u", ""},
	} {
		all, silent, err := n.Connections.ClientConnections(n.as(row.as), row.vhost, row.user)
		var names []string
		for _, x := range all {
			names = append(names, x.Name)
		}
		if got := strings.Join(names, " "); got != row.want || len(silent) > 0 || err != nil {
			t.Errorf("%s: %q, want %q; silent %v, %v", what, got, row.want, silent, err)
		}
	}
	_, _, err := n.Connections.ClientConnections(n.as("u"), "", "")
	is(t, "without a tag", err, failure.AccessRefused, "needs the tag management")
	is(t, "two of a name", n.Connections.EndConnection(n.as("o"), "twice", ""), failure.PreconditionFailed, "2 connections have this name")
	is(t, "none of a name", n.Connections.EndConnection(n.as("o"), "nix", ""), failure.NotFound, "does not exist")
	is(t, "one of another user", n.Connections.EndConnection(n.as("m"), "first", ""), failure.NotFound, "does not exist")
	x, err := n.Connections.ClientConnection(n.as("o"), "first")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Connections.EndConnection(n.as("o"), x.ID, "enough"); err != nil || len(ended) != 1 || ended["first"] != (connections.Closing{By: "o", Reason: "enough"}) {
		t.Errorf("ended %v, %v", ended, err)
	}
	if err := n.Connections.EndConnection(n.as("o"), "worker", ""); err != nil || len(ended) != 2 || ended["second"].By != "o" {
		t.Errorf("ended %v, %v", ended, err)
	}
}

// VH-2: a connection learns that it must end because its vhost or its user was deleted, and which of them.
func TestGone(t *testing.T) {
	n := newNode(t)
	if _, err := n.Administration.PutVHost(n.root, administration.VHost{Name: "v"}); err != nil {
		t.Fatal(err)
	}
	ctx := n.as("u")
	gone := func(what, want string) {
		t.Helper()
		if got := n.Connections.Gone(ctx, "v"); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	gone("while both are there", "")
	changed := n.Connections.CatalogChanged()
	if _, err := n.Administration.DeleteUser(n.root, "u"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(waitTimeout):
		t.Error("nothing tells of the change")
	}
	gone("without its user", "user 'u' was deleted")
	if _, err := n.Administration.DeleteVHost(n.root, "v"); err != nil {
		t.Fatal(err)
	}
	gone("without its vhost", "vhost 'v' was deleted")
}

// VH-12: consumers are listed by queue and age, and only for users who see the whole vhost.
func TestConsumers(t *testing.T) {
	n := newNode(t)
	ctx := n.as("u")
	for _, q := range []string{"b", "a"} {
		if _, err := n.DeclareQueue(ctx, broker.DeclareQueue{VHost: "/", Name: q, Durable: true}); err != nil {
			t.Fatal(err)
		}
		for _, tag := range []string{"1", "2"} {
			c, err := n.Consume(ctx, broker.Consume{VHost: "/", Queue: q, Tag: tag})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
	}
	for what, row := range map[string]struct{ vhost, queue, want string }{
		"all": {"", "", "a1 a2 b1 b2"}, "of a queue": {"/", "b", "b1 b2"}, "of another vhost": {"v", "", ""},
	} {
		all, silent, err := n.Connections.Consumers(n.as("o"), row.vhost, row.queue)
		var names []string
		for _, x := range all {
			names = append(names, x.Queue+x.Tag)
		}
		if got := strings.Join(names, " "); got != row.want || err != nil || len(silent) > 0 {
			t.Errorf("%s: %q, want %q; %v, %v", what, got, row.want, silent, err)
		}
	}
	if _, _, err := n.Connections.Consumers(ctx, "/", ""); err == nil {
		t.Error("a user without a tag sees all consumers")
	}
}
