package browsertest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/management/page"
)

// barred is a change that some users may not make.
type barred struct {
	path string // where its form is sent
	at   string // a page that has the way to it, for those who may
	way  string // the button, link or form; "": what is there at the moment leaves none
	form map[string]string
	// may are the users of TestBarred that may make it, besides guest.
	may []string
}

// The users of TestBarred. In the default vhost the reader may only read, the outsider has no permission, and all others
// have every right.
const (
	manager    = "manager"    // has the tag management
	watcher    = "watcher"    // monitoring
	politician = "politician" // policymaker
	reader     = "reader"     // management
	outsider   = "outsider"   // monitoring
)

// withPermission are those users whom only a tag can keep from something.
func withPermission() []string { return []string{manager, watcher, politician} }

// merge joins two forms.
func merge(a, b map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// barredByPermission are changes of queues, exchanges and what is in them. may has the reader if reading is enough.
func barredByPermission() []barred {
	work := map[string]string{"vhost": "/", "name": "work"}
	shop := map[string]string{"vhost": "/", "name": "shop"}
	chosen := map[string]string{"queue": "%2F/work", "typed": "1"}
	const messages, bindings, exchange = "/ui/queue/messages?vhost=%2F&name=work", "/ui/queue/bindings?vhost=%2F&name=work", "/ui/exchange?vhost=%2F&name=shop"
	const message, toQueue, toExchange = "/ui/queue/message?vhost=%2F&name=work&number=1", "/ui/queue/messages/publish?vhost=%2F&name=work", "/ui/exchange/publish?vhost=%2F&name=shop"
	toShop := map[string]string{"vhost": "/", "of": "queue", "name": "work", "source": "shop", "destination": "work", "kind": "queue", "routing_key": "k", "props": "k", "typed": "work"}
	all := []barred{
		{path: "/ui/queues/declare", at: "/ui/queues", way: `form[action="/ui/queues/declare"]`, form: map[string]string{"vhost": "/", "name": "forged"}},
		{path: "/ui/queues/purge", at: "/ui/queues", way: `button[value=purge]`, form: chosen, may: []string{reader}},
		{path: "/ui/queues/delete", at: "/ui/queues", way: `button[value=delete]`, form: chosen},
		{path: "/ui/queue/purge", at: aboutQueue("/ui/queue", "work"), way: `a[href^="/ui/queue/purge"]`, form: merge(work, map[string]string{"typed": "work"}), may: []string{reader}},
		{path: "/ui/queue/delete", at: aboutQueue("/ui/queue", "work"), way: `a[href^="/ui/queue/delete"]`, form: merge(work, map[string]string{"typed": "work"})},
		{path: "/ui/queue/messages/publish", at: messages, way: `a[href^="/ui/queue/messages/publish"]`, form: merge(work, map[string]string{"body": "forged"})},
		{path: "/ui/queue/messages/publish", at: message, way: `a[href^="/ui/queue/messages/publish"]`, form: merge(work, map[string]string{"body": "forged"})},
		{path: "/ui/queue/messages/publish", at: toQueue, way: `form[action="/ui/queue/messages/publish"]`, form: merge(work, map[string]string{"body": "forged"})},
		{path: "/ui/binding/add", at: bindings, way: `form[action="/ui/binding/add"]`, form: merge(toShop, map[string]string{"source": "amq.fanout"})},
		{path: "/ui/binding/remove", at: bindings, way: `a[href^="/ui/binding/remove"]`, form: toShop},
		{path: "/ui/exchanges/declare", at: "/ui/exchanges", way: `form[action="/ui/exchanges/declare"]`, form: map[string]string{"vhost": "/", "name": "forged", "type": "topic"}},
		{path: "/ui/exchange/delete", at: exchange, way: `a[href^="/ui/exchange/delete"]`, form: merge(shop, map[string]string{"typed": "shop"})},
		{path: "/ui/exchange/publish", at: exchange, way: `a[href^="/ui/exchange/publish"]`, form: merge(shop, map[string]string{"routing_key": "k", "body": "forged"})},
		{path: "/ui/exchange/publish", at: toExchange, way: `form[action="/ui/exchange/publish"]`, form: merge(shop, map[string]string{"routing_key": "k", "body": "forged"})},
		{path: "/ui/binding/add", at: exchange, way: `form[action="/ui/binding/add"]`, form: merge(toShop, map[string]string{"routing_key": "forged"})},
		{path: "/ui/binding/remove", at: exchange, way: `a[href^="/ui/binding/remove"]`, form: toShop},
	}
	for job, may := range map[string][]string{"delete": {reader}, "move": nil, "redrive": nil} {
		all = append(all, barred{
			path: "/ui/queue/messages/" + job, at: messages, way: `button[formaction="/ui/queue/messages/` + job + `"]`,
			form: merge(work, map[string]string{"scope": "all", "target": "fewer", "typed": "work"}), may: may,
		})
	}
	for i := range all {
		all[i].may = append(all[i].may, withPermission()...)
	}
	return all
}

// barredByTag are changes of users, vhosts, nodes and what else the tag administrator is needed for, or policymaker.
func barredByTag(operation string, connection client.ConnectionInfo) []barred {
	few := map[string]string{"vhost": "/", "name": "fewer"}
	node := map[string]string{"name": "node-0", "typed": "node-0"}
	ann := map[string]string{"name": "ann", "typed": "ann", "tag": "administrator", "password": "forged", "again": "forged", "max-connections": "1"}
	team := map[string]string{"name": "team", "typed": "team", "description": "forged", "max-queues": "1", "protect": "true"}
	allowed := map[string]string{"of": "user", "user": "ann", "typed": "ann", "vhost": "/", "exchange": "amq.topic", "configure": ".*", "write": "", "read": ""}
	policy := map[string]string{"vhost": "/", "name": "p", "typed": "p", "pattern": "^forged", "definition": `{"max-length": 1}`}
	const aboutNode, user, vhost, aboutPolicy = "/ui/node?name=node-0", "/ui/user?name=ann", "/ui/vhost?name=team", "/ui/policy?vhost=%2F&name=p"
	members := aboutQueue("/ui/queue/members", "fewer")
	form := func(path string) string { return `form[action="` + path + `"]` }
	link := func(path string) string { return `main a[href^="` + path + `"]` }
	all := []barred{
		{path: "/ui/queue/members/lead", at: members, way: form("/ui/queue/members/lead"), form: merge(few, map[string]string{"node": "node-1"})},
		{path: "/ui/queue/members/add", at: members, way: form("/ui/queue/members/add"), form: merge(few, map[string]string{"node": "node-2"})},
		{path: "/ui/queue/members/remove", at: members, way: link("/ui/queue/members/remove"), form: merge(few, map[string]string{"node": "node-1", "typed": "node-1"})},
		{path: "/ui/policy/put", at: "/ui/policies", way: link("/ui/policy/new"), form: policy, may: []string{politician}},
		{path: "/ui/policy/delete", at: aboutPolicy, way: link("/ui/policy/delete"), form: policy, may: []string{politician}},
		{path: "/ui/connection/close", at: "/ui/connection?name=" + connection.ID, way: form("/ui/connection/close"), form: map[string]string{"name": connection.ID, "typed": connection.PeerAddress}},
		{path: "/ui/operation/cancel", at: "/ui/operation?id=" + operation, way: link("/ui/operation/cancel"), form: map[string]string{"id": operation, "typed": "delete-messages"}},
		{path: "/ui/nodes/rebalance", at: "/ui/nodes", way: link("/ui/nodes/rebalance")},
		{path: "/ui/node/undrain", form: node},
		{path: "/ui/vhosts/add", at: "/ui/vhosts", way: form("/ui/vhosts/add"), form: map[string]string{"name": "forged"}},
		{path: "/ui/users/add", at: "/ui/users", way: form("/ui/users/add"), form: map[string]string{"name": "forged", "password": "p"}},
		{path: "/ui/permission/set", at: user, way: form("/ui/permission/set"), form: allowed},
		{path: "/ui/permission/clear", at: user, way: link("/ui/permission/clear"), form: allowed},
		{path: "/ui/topic-permission/set", at: user, way: form("/ui/topic-permission/set"), form: allowed},
		{path: "/ui/topic-permission/clear", at: user, way: link("/ui/topic-permission/clear"), form: allowed},
		{path: "/ui/user/password/remove", at: user, way: link("/ui/user/password/remove"), form: ann},
		{path: "/ui/user/delete", at: user, way: link("/ui/user/delete"), form: ann},
		{path: "/ui/vhost/delete", at: vhost, way: link("/ui/vhost/delete"), form: team},
		{path: "/ui/definitions/import", at: "/ui/definitions", way: form("/ui/definitions/import"), form: map[string]string{"act": "compare", "text": `{"users": [{"name": "forged", "tags": ["administrator"]}]}`}},
	}
	for _, act := range []string{"drain", "grow", "shrink"} {
		all = append(all, barred{path: "/ui/node/" + act, at: aboutNode, way: form("/ui/node/" + act), form: node})
	}
	for _, act := range []string{"tags", "password", "limits"} {
		all = append(all, barred{path: "/ui/user/" + act, at: user, way: form("/ui/user/" + act), form: ann})
	}
	for _, act := range []string{"change", "limits", "protect"} {
		all = append(all, barred{path: "/ui/vhost/" + act, at: vhost, way: form("/ui/vhost/" + act), form: team})
	}
	return all
}

// furnishBarred makes what the changes are about, and the users. It returns an operation that runs and a connection.
func (s *served) furnishBarred(c *client.Client) (operation string, connection client.ConnectionInfo) {
	t := s.t
	t.Helper()
	ctx := t.Context()
	declare(t, c, "work", "worker", "slow")
	_, few := c.DeclareQueue(ctx, client.Queue{Name: "fewer", Arguments: client.Table{"x-quorum-initial-group-size": int64(2)}})
	_, shop := c.DeclareExchange(ctx, client.Exchange{Name: "shop", Type: "topic"})
	bound := c.Bind(ctx, client.Binding{Source: "shop", Destination: "work", RoutingKey: "k"})
	_, put := c.PutPolicy(ctx, client.Policy{Name: "p", Pattern: "^nothing", ApplyTo: "queues", Definition: client.Table{"max-length": int64(5)}})
	_, team := c.PutVHost(ctx, client.VHost{Name: "team"})
	if err := all(few, shop, bound, put, team); err != nil {
		t.Fatal(err)
	}
	for name, tag := range map[string]string{manager: "management", watcher: "monitoring", politician: "policymaker", reader: "management", outsider: "monitoring", "ann": "management"} {
		s.addUser(name, tag)
		p := client.Permission{User: name, VHost: "/", Configure: ".*", Write: ".*", Read: ".*"}
		switch name {
		case outsider:
			continue
		case reader:
			p.Configure, p.Write = "", ""
		}
		if _, err := c.SetPermission(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.SetTopicPermission(ctx, client.TopicPermission{User: "ann", VHost: "/", Exchange: "amq.topic", Write: ".*", Read: ".*"}); err != nil {
		t.Fatal(err)
	}
	publish(t, c, 3, client.Message{RoutingKey: "work"})
	publish(t, c, 1000, client.Message{RoutingKey: "slow"})
	job, err := c.DeleteMessages(ctx, client.MessageJob{Queue: "slow", Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.consumeAs("worker")
	s.await("the connection is listed", func() error {
		for x, err := range c.Connections(ctx, client.ListConnectionsRequest{}) {
			if err != nil {
				return err
			}
			if x.ClientName == "worker" {
				connection = x
				return nil
			}
		}
		return so(nil, false, "no such connection")
	})
	return job.Operation.ID, connection
}

// sends sends a form from within the page, with the session's token or without, and returns the code of the answer.
func (x *tab) sends(path string, form map[string]string, token bool) int {
	x.t.Helper()
	fields, err := json.Marshal(form)
	if err != nil {
		x.t.Fatal(err)
	}
	kind := "URLSearchParams"
	if path == "/ui/definitions/import" {
		kind = "FormData"
	}
	return ask[int](x, fmt.Sprintf(`(() => {
		const body = new %s();
		for (const [name, value] of Object.entries(%s || {})) body.append(name, value);
		if (%t) body.append("form_token", document.querySelector("[name=form_token]").value);
		return fetch(%s, {method: "POST", redirect: "manual", body}).then((r) => r.status);
	})()`, kind, fields, token, quote(path)))
}

// Who may not make a change sees no way to it, and is refused with a form that is sent all the same; so is everybody
// whose form lacks the session's token. Nothing changes by it. Who may make it sees the way.
func TestBarred(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	operation, connection := s.furnishBarred(c)
	rows := append(barredByPermission(), barredByTag(operation, connection)...)
	slices.SortStableFunc(rows, func(a, b barred) int { return cmp.Compare(a.at, b.at) }) // a page is opened once for all that it has
	for _, path := range page.Actions() {
		if !slices.ContainsFunc(rows, func(b barred) bool { return b.path == path }) {
			t.Errorf("nobody is kept from %s", path)
		}
	}
	before := s.records("guest")
	t.Run("guest", func(t *testing.T) {
		x := browse(t, s.base)
		x.login("guest", "guest")
		x.found.expect(http.StatusForbidden)
		for _, b := range rows {
			if b.way != "" && !x.ways(b.at, b.way) {
				t.Errorf("%s has no %s for somebody who may do everything", b.at, b.way)
			}
			if code := x.sends(b.path, b.form, false); code != http.StatusForbidden {
				t.Errorf("%s without the session's token: %d", b.path, code)
			}
		}
		if now := s.records("guest"); !slices.Equal(now, before) {
			t.Errorf("forms without a token are in the audit: %q, before %q", now, before)
		}
	})
	for _, user := range append(withPermission(), reader, outsider) {
		t.Run(user, func(t *testing.T) {
			x := browse(t, s.base)
			x.login(user, "p")
			x.found.expect(http.StatusForbidden, http.StatusNotFound)
			for _, b := range rows {
				if !slices.Contains(b.may, user) {
					s.refuses(t, x, &b)
				} else if b.way != "" && !x.ways(b.at, b.way) {
					t.Errorf("%s has no %s", b.at, b.way)
				}
			}
			for _, r := range s.records(user) {
				if strings.HasSuffix(r, " done") {
					t.Errorf("the audit has %q", r)
				}
			}
		})
	}
	if err := unchanged(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// ways reports whether a page has the way to a change. It opens the page if the tab is elsewhere.
func (x *tab) ways(at, way string) bool {
	x.t.Helper()
	if ask[string](x, `location.pathname + location.search`) != at {
		x.open(at)
		x.await(`document.readyState === "complete"`)
	}
	return ask[bool](x, `document.querySelector(`+quote(way)+`) !== null`)
}

// refuses checks that a user sees no way to a change, and cannot make it.
func (s *served) refuses(t *testing.T, x *tab, b *barred) {
	t.Helper()
	if b.way != "" && x.ways(b.at, b.way) {
		t.Errorf("%s has %s", b.at, b.way)
	}
	if code := x.sends(b.path, b.form, true); code != http.StatusForbidden && code != http.StatusNotFound {
		t.Errorf("%s: %d", b.path, code)
	}
}

// unchanged is nil if what the forms were about is as it was.
func unchanged(ctx context.Context, c *client.Client) error {
	errs := []error{
		ready(ctx, c, "work", 3), noQueue(ctx, c, "forged"), user(ctx, c, "ann", tagged("management")), annLogsIn(ctx, c, "p"),
		user(ctx, c, "forged", func(u client.UserInfo) bool { return u.Name == "" }),
		vhost("team", func(h client.VHost) bool {
			return h.Name == "team" && h.Description == "" && !h.Protected && h.Limits.MaxQueues == nil
		})(ctx, c),
		drained("node-0", false)(ctx, c), shopBindings(ctx, c, "work", "k", 1),
	}
	q, err := c.GetQueue(ctx, client.QueueRef{Name: "fewer"})
	errs = append(errs, so(err, len(q.Members) == 2, q.Members))
	policies, err := client.Collect(c.Policies(ctx, "/"))
	return all(append(errs, so(err, len(policies) == 1 && policies[0].Pattern == "^nothing", policies))...)
}
