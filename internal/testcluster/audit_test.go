package testcluster_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/broker/watch"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster/event"
)

// AU-1: whatever users and operators change over gRPC, AMQP and HTTP leaves one record with who, where
// from and what; what was refused too, and what changed nothing none.
func TestAudit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	a := startAuditing(t, 3)
	awaitVersion(t, a.c, 3) // so that queues name who declared them
	ctx := testContext(t)
	a.access(ctx)
	a.topology(ctx)
	a.overAMQP(ctx)
	a.overHTTP()
	a.logins(ctx)
	a.operators(ctx)
	a.itself()
	t.Run("rights", func(t *testing.T) { a.t = t; a.rights(ctx) })
	t.Run("secrets", func(t *testing.T) { a.t = t; a.secrets(ctx) })
	t.Run("overflow", func(t *testing.T) { a.t = t; a.overflow(ctx) })
}

func (a *auditing) access(ctx context.Context) {
	_, err := a.root.PutVHost(ctx, client.VHost{Name: "v", Description: "of orders"})
	a.must(err)
	_, err = a.root.PutUser(ctx, client.User{Name: "alice", Password: "s3cret-one", Tags: []string{"management"}})
	a.must(err)
	_, err = a.root.SetPermission(ctx, client.Permission{User: "alice", VHost: "v", Configure: "^a", Write: "^a", Read: ".*"})
	a.must(err)
	_, err = a.root.SetPermission(ctx, client.Permission{User: "alice", VHost: "v", Configure: "^a", Write: ".*", Read: ".*"})
	a.must(err)
	_, err = a.root.PutUser(ctx, client.User{Name: "alice", Password: "s3cret-two", Tags: []string{"management"}})
	a.must(err)
	_, err = a.root.PutPolicy(ctx, client.Policy{VHost: "v", Name: "p", Pattern: "^none", Definition: client.Table{"max-length": 5}})
	a.must(err)
	_, err = a.root.PutPolicy(ctx, client.Policy{VHost: "v", Name: "p", Pattern: "^none", Definition: client.Table{"max-length": 7}})
	a.must(err)
	alice := openClient(a.t, a.c, as("alice", "s3cret-two"))
	_, err = alice.PutUser(ctx, client.User{Name: "mallory", Password: "s3cret-three"})
	a.refused(err)
	_, err = a.root.PutUser(ctx, client.User{Name: "gone", Password: "s3cret-four"})
	a.must(err)
	_, err = a.root.DeleteUser(ctx, "gone")
	a.must(err)
	_, err = a.root.DeleteUser(ctx, "never") // changes nothing
	a.must(err)
	a.once(
		audited{"vhost.put", "v", "v", "guest", "grpc", "done", "description:>of orders"},
		audited{"user.put", "", "alice", "guest", "grpc", "done", "tags:>management password:>set"},
		audited{"user.put", "", "alice", "guest", "grpc", "done", "password:set>changed"},
		audited{"permission.set", "v", "alice", "guest", "grpc", "done", "configure:>^a write:>^a read:>.*"},
		audited{"permission.set", "v", "alice", "guest", "grpc", "done", "write:^a>.*"},
		audited{"policy.put", "v", "p", "guest", "grpc", "done", "definition.max-length:>5"},
		audited{"policy.put", "v", "p", "guest", "grpc", "done", "definition.max-length:5>7"},
		audited{"user.put", "", "mallory", "alice", "grpc", "refused", "needs the tag administrator"},
		audited{"user.delete", "", "gone", "guest", "grpc", "done", "password:set>"},
	)
	all, text := a.tail()
	if strings.Contains(text, "never") {
		a.t.Errorf("what changed nothing is told:\n%s", text)
	}
	for _, e := range all {
		r := e.Audit
		if r.Operation == "policy.put" && (r.Client != "the root's program" || !strings.HasPrefix(r.Address, "127.0.0.1:") || r.Mechanism != "password") {
			a.t.Errorf("from where: %v", r)
		}
	}
}

func (a *auditing) topology(ctx context.Context) {
	for range 3 { // the second and third change nothing
		_, err := a.root.DeclareQueue(ctx, client.Queue{Name: "q", Arguments: client.Table{"x-max-length": 9}})
		a.must(err)
		_, err = a.root.DeclareExchange(ctx, client.Exchange{Name: "x", Type: "topic"})
		a.must(err)
		a.must(a.root.Bind(ctx, client.Binding{Source: "x", Destination: "q", RoutingKey: "k.#"}))
	}
	_, err := a.root.DeclareQueue(ctx, client.Queue{Name: "q", Arguments: client.Table{"x-max-length": 10}})
	a.refused(err)
	_, err = a.root.PurgeQueue(ctx, client.QueueRef{Name: "q"}) // of nothing
	a.must(err)
	p, err := a.root.Publisher(client.PublisherConfig{})
	a.must(err)
	_, err = p.Publish(ctx, client.Message{RoutingKey: "q", Body: []byte("s3cret-body")})
	a.must(err)
	_, err = a.root.PurgeQueue(ctx, client.QueueRef{Name: "q"})
	a.must(err)
	a.must(a.root.Unbind(ctx, client.Binding{Source: "x", Destination: "q", RoutingKey: "k.#"}))
	a.must(a.root.DeleteExchange(ctx, client.DeleteExchangeRequest{Name: "x"}))
	_, err = a.root.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "q"})
	a.must(err)
	_, err = a.root.DeleteQueue(ctx, client.DeleteQueueRequest{Name: "q"})
	a.must(err)
	a.once(
		audited{"queue.declare", "/", "q", "guest", "grpc", "done", "type:>quorum declared_by:>guest arguments.x-max-length:>9"},
		audited{"queue.declare", "/", "q", "guest", "grpc", "refused", "x-max-length"},
		audited{"exchange.declare", "/", "x", "guest", "grpc", "done", "type:>topic"},
		audited{"binding.create", "/", "x → q", "guest", "grpc", "done", "routing_key:>k.#"},
		audited{"queue.purge", "/", "q", "guest", "grpc", "done", "messages:1>"},
		audited{"binding.delete", "/", "x → q", "guest", "grpc", "done", "routing_key:k.#>"},
		audited{"exchange.delete", "/", "x", "guest", "grpc", "done", "type:topic>"},
		audited{"queue.delete", "/", "q", "guest", "grpc", "done", "type:quorum>"},
	)
}

func (a *auditing) overAMQP(context.Context) {
	conn, err := a.dial(1, "alice", "s3cret-two", "v")
	a.must(err)
	defer func() { a.must(conn.Close()) }()
	on := func(f func(*amqp091.Channel) error) error {
		ch, err := conn.Channel()
		a.must(err)
		err = f(ch)
		_ = ch.Close() // the server may have closed it
		return err
	}
	for range 2 {
		a.must(on(func(ch *amqp091.Channel) error {
			_, err := ch.QueueDeclare("a.q", true, false, false, false, nil)
			return err
		}))
	}
	made := ""
	a.must(on(func(ch *amqp091.Channel) error {
		if _, err := ch.QueueDeclarePassive("a.q", true, false, false, false, nil); err != nil {
			return err
		}
		if err := ch.ExchangeDeclare("a.x", "fanout", true, false, false, false, nil); err != nil {
			return err
		}
		q, err := ch.QueueDeclare("a.made", false, true, true, false, nil)
		made = q.Name
		return errors.Join(err, ch.QueueBind("a.q", "", "a.x", false, nil))
	}))
	if on(func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare("b.q\x1b[2J", true, false, false, false, nil)
		return err
	}) == nil {
		a.t.Error("alice may declare what her permission does not match")
	}
	a.once(
		audited{"login", "v", "alice", "alice", "amqp", "done", ""},
		audited{"queue.declare", "v", "a.q", "alice", "amqp", "done", "type:>quorum"},
		audited{"queue.declare", "v", made, "alice", "amqp", "done", "exclusive:>true"},
		audited{"exchange.declare", "v", "a.x", "alice", "amqp", "done", "type:>fanout"},
		audited{"binding.create", "v", "a.x → a.q", "alice", "amqp", "done", ""},
		audited{"queue.declare", "v", "b.q\x1b[2J", "alice", "amqp", "refused", "has no configure access"},
	)
	all, _ := a.tail()
	for _, e := range all {
		if r := e.Audit; r.Protocol == "amqp" && (r.Client != "orders" || r.Address != conn.LocalAddr().String() || e.Node != a.c.Name(1)) {
			a.t.Errorf("from where: %v", e)
		}
	}
	if log := a.log.String(); strings.Contains(log, "\x1b") || !strings.Contains(log, `b.q\\x1b[2J`) && !strings.Contains(log, `b.q\x1b[2J`) {
		a.t.Error("the log has a name with an escape as it is, or not at all")
	}
}

func (a *auditing) overHTTP() {
	conn, err := a.dial(2, "alice", "s3cret-two", "v")
	a.must(err)
	name := conn.LocalAddr().String() + " -> " + conn.RemoteAddr().String()
	closed := conn.NotifyClose(make(chan *amqp091.Error, 1))
	ask := func(user, password string, want int) {
		r, err := http.NewRequestWithContext(a.t.Context(), http.MethodDelete, a.web+"/api/connections/"+url.PathEscape(name), nil)
		a.must(err)
		r.SetBasicAuth(user, password)
		answer, err := http.DefaultClient.Do(r)
		a.must(err)
		a.must(answer.Body.Close())
		if answer.StatusCode != want {
			a.t.Errorf("%s: %d, want %d", user, answer.StatusCode, want)
		}
	}
	ask("alice", "s3cret-two", http.StatusForbidden)
	ask("alice", "s3cret-wrong", http.StatusUnauthorized)
	ask("guest", "guest", http.StatusNoContent)
	if e := <-closed; e == nil || e.Code != amqp091.ConnectionForced {
		a.t.Errorf("closed by %v", e)
	}
	a.once(
		audited{"connection.close", "", name, "alice", "http", "refused", "needs the tag administrator"},
		audited{"connection.close", "", name, "guest", "http", "done", "user:alice>"},
		audited{"login", "", "alice", "", "http", "refused", "wrong user or password"},
		audited{"login", "", "alice", "alice", "http", "done", ""},
		audited{"login", "", "guest", "guest", "http", "done", ""},
	)
}

func (a *auditing) logins(ctx context.Context) {
	if err := loginError(ctx, a.t, a.c, as("bob", "s3cret-wrong")); err == nil {
		a.t.Error("bob is let in")
	}
	if _, err := a.dial(0, "carol", "s3cret-wrong", "/"); err == nil {
		a.t.Error("carol is let in")
	}
	if _, err := a.dial(0, "alice", "s3cret-two", "/"); err == nil {
		a.t.Error("alice is let into a vhost without a permission")
	}
	a.once(
		audited{"login", "", "carol", "", "amqp", "refused", "wrong user or password"},
		audited{"login", "/", "alice", "alice", "amqp", "refused", "has no permission in it"},
	)
	all, _ := a.tail()
	bobs := 0
	for _, e := range all {
		if e.Audit.Operation == "login" && e.Name == "bob" {
			bobs++
		}
	}
	if bobs == 0 { // the client asks each node
		a.t.Error("bob's refused login is not told")
	}
}

// operators: tokens, jobs, leaders, and the token of a node's host.
func (a *auditing) operators(ctx context.Context) {
	_, err := a.root.DeclareQueue(ctx, client.Queue{Name: "moved"})
	a.must(err)
	q, err := a.root.GetQueue(ctx, client.QueueRef{Name: "moved"})
	a.must(err)
	to := ""
	for _, m := range q.Members {
		if m != q.Leader {
			to = m
		}
	}
	a.must(a.root.TransferLeadership(ctx, client.TransferLeadershipRequest{Queue: "moved", Node: to}))
	host := openClient(a.t, a.c, func(c *client.Config) {
		c.Addresses, c.FixedAddresses, c.Token = a.c.Addrs()[:1], true, a.hostToken
	})
	_, err = host.PutUser(ctx, client.User{Name: "ops", Password: "s3cret-five", Tags: []string{"administrator"}})
	a.must(err)
	document := `{"users":[{"name":"imported","password":"s3cret-six","tags":[]}],"queues":[{"name":"iq","vhost":"/","durable":true,"arguments":{}}]}`
	_, err = a.root.ImportDefinitions(ctx, client.ImportDefinitionsRequest{Document: []byte(document), DryRun: true})
	a.must(err)
	_, err = a.root.ImportDefinitions(ctx, client.ImportDefinitionsRequest{Document: []byte(document)})
	a.must(err)
	a.once(
		audited{"leader.transfer", "/", "moved", "guest", "grpc", "done", "leader:>" + to},
		audited{"login", "", "host:node-0", "host:node-0", "grpc", "done", ""},
		audited{"user.put", "", "ops", "host:node-0", "grpc", "done", "tags:>administrator"},
		audited{"user.put", "", "imported", "guest", "grpc", "done", "password:>set"},
		audited{"definitions.import", "", "", "guest", "grpc", "done", "created:>2"},
	)
	_, text := a.tail()
	if strings.Contains(text, `"iq"`) || !strings.Contains(text, "administrator-token") {
		a.t.Errorf("queues of an import are told one by one, or the token of a host is not:\n%s", text)
	}
}

// itself: what nodes do without being asked to is recorded as theirs.
func (a *auditing) itself() {
	for i := range 3 {
		n := a.c.Name(i)
		a.once(audited{"node.join", "", n, "node:" + n, "node", "done", "address:>127.0.0.1"})
	}
	all, text := a.tail()
	founders := map[string]int{}
	for _, e := range all {
		if r := e.Audit; e.Name == "guest" && strings.HasPrefix(r.User, "node:") {
			founders[r.Operation]++
		}
	}
	if len(founders) != 2 || founders["user.put"] != 1 || founders["permission.set"] != 1 {
		a.t.Errorf("the first user is told as %v:\n%s", founders, text)
	}
}

// rights: AU-3, who is no administrator sees none of it.
func (a *auditing) rights(ctx context.Context) {
	_, err := a.root.PutUser(ctx, client.User{Name: "watcher", Password: "s3cret-seven", Tags: []string{"monitoring"}})
	a.must(err)
	watcher := openClient(a.t, a.c, as("watcher", "s3cret-seven"))
	_, err = watcher.TailAudit(ctx, client.TailAuditRequest{})
	a.refused(err)
	a.refused(watcher.WatchEvents(ctx, client.WatchEventsRequest{Kinds: []string{"audit"}, History: true}, func([]client.Event) error { return nil }))
	watch := func(c *client.Client, kinds ...string) (seen []client.Event, err error) {
		enough := errors.New("enough")
		err = c.WatchEvents(ctx, client.WatchEventsRequest{Kinds: kinds, History: true}, func(events []client.Event) error {
			for _, e := range events {
				if seen = append(seen, e); e.Name == "last" {
					return enough
				}
			}
			return nil
		})
		if errors.Is(err, enough) {
			err = nil
		}
		return seen, err
	}
	_, err = a.root.DeclareExchange(ctx, client.Exchange{Name: "last", Type: "fanout"})
	a.must(err)
	for name, c := range map[string]*client.Client{"watcher": watcher, "root": a.root} {
		seen, err := watch(c)
		a.must(err)
		for _, e := range seen {
			if e.Audit != nil || e.Kind == "audit" {
				a.t.Errorf("%s sees without having asked: %v", name, e)
			}
		}
	}
	seen, err := watch(a.root, "audit")
	a.must(err)
	if last := seen[len(seen)-1]; last.Audit.Operation != "exchange.declare" {
		a.t.Errorf("the last one is %v", last)
	}
	only, err := a.root.TailAudit(ctx, client.TailAuditRequest{User: "alice", Operation: "queue.*", VHost: "v"})
	a.must(err)
	for _, e := range only.Events {
		if e.Audit.User != "alice" || e.VHost != "v" || !strings.HasPrefix(e.Audit.Operation, "queue.") {
			a.t.Errorf("was not asked for: %v", e)
		}
	}
	if len(only.Events) != 3 {
		a.t.Errorf("%d records of alice's queues, want 3", len(only.Events))
	}
}

// secrets: AU-2, neither passwords nor hashes nor tokens are shown, in records and in the log.
func (a *auditing) secrets(ctx context.Context) {
	token, err := a.root.MintToken(ctx, 0)
	a.must(err)
	_, err = a.root.RevokeToken(ctx, token.ID)
	a.must(err)
	a.once(audited{"token.mint", "", token.ID, "guest", "grpc", "done", "expires:>20"},
		audited{"token.revoke", "", token.ID, "guest", "grpc", "done", "of_user:guest>"})
	_, text := a.tail()
	log := a.log.String()
	if !strings.Contains(log, "msg=audit operation=user.put outcome=done user=guest mechanism=password protocol=grpc") {
		a.t.Errorf("the log has no line of a user that was made")
	}
	basic := base64.StdEncoding.EncodeToString([]byte("alice:s3cret-two"))
	for _, secret := range []string{"s3cret", token.Token, a.hostToken, "$argon2id", basic} {
		for where, out := range map[string]string{"records": text, "log": log} {
			if strings.Contains(out, secret) {
				a.t.Errorf("the %s have %q", where, secret)
			}
		}
	}
}

// overflow: AU-4, a list says how many records it does not have any more, and what clients do pushes
// out nothing of administration.
func (a *auditing) overflow(ctx context.Context) {
	const n = 3 * event.AuditKeep
	before, _ := a.tail()
	for range n {
		a.c.Cluster(0).Audit(event.AuditOfUse, event.Event{Name: "flood", Audit: &event.Audited{Operation: "queue.declare", Outcome: event.Done}})
	}
	out, err := a.root.TailAudit(ctx, client.TailAuditRequest{Limit: watch.MaxAuditTail})
	a.must(err)
	if got := int(out.Lost) + len(out.Events); out.Lost == 0 || got != len(before)+n {
		a.t.Errorf("%d lost and %d kept, want %d together", out.Lost, len(out.Events), len(before)+n)
	}
	a.once( // what alice was refused is pushed out if the flooded node was asked (AU-4)
		audited{"user.delete", "", "gone", "guest", "grpc", "done", "password:set>"},
		audited{"vhost.put", "v", "v", "guest", "grpc", "done", "description:>of orders"})
}
