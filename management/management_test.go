package management_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// web asks one node's listener.
type web struct {
	t    *testing.T
	base string
}

func serve(t *testing.T, b *broker.Broker, node string) web {
	s := httptest.NewServer(management.New(management.Config{Broker: b, Node: node, Version: "test"}))
	t.Cleanup(s.Close)
	return web{t: t, base: s.URL}
}

// ask returns the answer's code and header, and its body in out unless that is nil.
func (w web) ask(method, path, user, password string, out any) (int, http.Header) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.SetBasicAuth(user, password)
	r.Header.Set("X-Reason", "it is time")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		w.t.Fatal(err)
	}
	if out != nil {
		if err := json.Unmarshal(body, out); err != nil {
			w.t.Fatalf("%s: %v", body, err)
		}
	}
	return answer.StatusCode, answer.Header
}

// heard gets a page of which no node's part is missing: one that is busy may not answer another one in time.
func (w web) heard(path, user, password string, into any) {
	w.t.Helper()
	testcluster.Poll(w.t, "all nodes answer", func() error {
		var body json.RawMessage
		code, header := w.ask(http.MethodGet, path, user, password, &body)
		if silent := header.Get("Quorate-Silent"); code != http.StatusOK || silent != "" {
			return fmt.Errorf("%s: %d, silent %q, %s", path, code, silent, body)
		}
		return json.Unmarshal(body, into)
	})
}

// connections returns those to all nodes, by what their clients call themselves.
func (w web) connections() map[string]map[string]any {
	w.t.Helper()
	return named(w.rows("/api/connections"))
}

// named returns connections by what their clients call themselves.
func named(all []map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, x := range all {
		name, _ := x["user_provided_name"].(string)
		out[name] = x
	}
	return out
}

// list returns the connections by what their clients call themselves, and the silent nodes.
func (w web) list() (map[string]map[string]any, string) {
	w.t.Helper()
	var all []map[string]any
	code, header := w.ask(http.MethodGet, "/api/connections", "guest", "guest", &all)
	if code != http.StatusOK {
		w.t.Fatal(code)
	}
	return named(all), header.Get("Quorate-Silent")
}

// open opens an AMQP connection with a name and a channel.
func open(t *testing.T, address, name string) (*amqp091.Connection, chan *amqp091.Error) {
	t.Helper()
	c, err := amqp091.DialConfig("amqp://guest:guest@"+address+"/", amqp091.Config{Properties: amqp091.Table{
		"connection_name": name, "about": amqp091.Table{"list": []any{int32(1), "two", true, nil}, "raw": []byte("x")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // most are closed by then
	if _, err := c.Channel(); err != nil {
		t.Fatal(err)
	}
	return c, c.NotifyClose(make(chan *amqp091.Error, 1))
}

// path is a connection's.
func path(x map[string]any) string {
	return "/api/connections/" + url.PathEscape(fmt.Sprint(x["name"]))
}

// forced waits until a client is notified that its connection is closed.
func forced(t *testing.T, closed chan *amqp091.Error, reason string) {
	t.Helper()
	select {
	case err := <-closed:
		if err == nil || err.Code != amqp091.ConnectionForced || err.Reason != "CONNECTION_FORCED - "+reason {
			t.Errorf("%+v", err)
		}
	case <-time.After(patience):
		t.Fatal("the connection is not closed")
	}
}

// One node's listener shows the connections to all nodes and closes them; of a node that does
// not answer it says so.
func TestConnectionsOfAllNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	w := serve(t, c.Broker(2), c.Name(2))
	first, firstClosed := open(t, c.AMQP(0), "first")
	_, secondClosed := open(t, c.AMQP(1), "second")
	cl, err := client.Dial(t.Context(), client.Config{Addresses: []string{c.Addrs()[1]}, FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	list := w.connections()
	x := list["first"]
	if len(list) != 3 {
		t.Fatalf("%v", list)
	}
	peer, err := netip.ParseAddrPort(first.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	if since, _ := x["connected_at"].(float64); time.Since(time.UnixMilli(int64(since))) > patience {
		t.Error(x["connected_at"])
	}
	for _, moving := range []string{"connected_at", "recv_oct", "send_oct"} {
		if n, _ := x[moving].(float64); n <= 0 {
			t.Errorf("%s is %v", moving, x[moving])
		}
		delete(x, moving)
	}
	for _, rate := range []string{"recv_oct_details", "send_oct_details"} {
		if of, _ := x[rate].(map[string]any); of["rate"] == nil {
			t.Errorf("%s is %v", rate, x[rate])
		}
		delete(x, rate)
	}
	here, err := netip.ParseAddrPort(first.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"name": fmt.Sprint(first.LocalAddr(), " -> ", first.RemoteAddr()), "user": "guest", "user_who_performed_action": "guest",
		"vhost": "/", "node": c.Name(0), "channels": 1.0, "type": "network",
		"peer_host": "127.0.0.1", "peer_port": float64(peer.Port()), "host": "127.0.0.1", "port": float64(here.Port()),
		"protocol": "AMQP 0-9-1", "auth_mechanism": "PLAIN", "ssl": false, "state": "running",
		"frame_max": 131072.0, "channel_max": 2047.0, "timeout": 10.0, "user_provided_name": "first",
		"client_properties": map[string]any{
			"connection_name": "first", "about": map[string]any{"list": []any{1.0, "two", true, nil}, "raw": "x"},
			"capabilities": map[string]any{"basic.nack": true, "connection.blocked": true, "consumer_cancel_notify": true, "publisher_confirms": true},
		},
	}
	if fmt.Sprint(x) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", x, want)
	}
	if x := list["second"]; x["node"] != c.Name(1) {
		t.Errorf("%v", x)
	}
	if x := list[""]; x["node"] != c.Name(1) || x["protocol"] != "gRPC" || fmt.Sprint(x["client_properties"]) != "map[]" {
		t.Errorf("%v", x)
	}
	var one map[string]any
	if code, _ := w.ask(http.MethodGet, path(list["second"]), "guest", "guest", &one); code != http.StatusOK || one["node"] != c.Name(1) {
		t.Error(code, one)
	}
	var overview struct {
		Totals map[string]int `json:"object_totals"`
	}
	if w.heard("/api/overview", "guest", "guest", &overview); overview.Totals["connections"] != 3 {
		t.Error(overview)
	}
	testConsumers(t, w, first, x)
	testChannels(t, w, first, x)
	testRights(t, c.Broker(2), w, path(list["second"]))
	testConnectionsOfAUser(t, w, c.AMQP(0))
	if code, _ := w.ask(http.MethodDelete, path(list["second"]), "guest", "guest", nil); code != http.StatusNoContent {
		t.Fatal(code)
	}
	forced(t, secondClosed, "it is time")
	testcluster.Poll(t, "the second is gone", func() error {
		if list, _ := w.list(); list["second"] != nil {
			return fmt.Errorf("%v", list["second"])
		}
		return nil
	})
	if code, _ := w.ask(http.MethodDelete, path(list["second"]), "guest", "guest", nil); code != http.StatusNotFound {
		t.Error(code)
	}
	c.Kill(1)
	testSilence(t, w, c.Name(1), list)
	forced(t, firstClosed, "it is time")
}

// testConsumers: a consumer of another node's connection is shown as RabbitMQ would.
func testConsumers(t *testing.T, w web, c *amqp091.Connection, of map[string]any) {
	t.Helper()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Qos(5, 0, false); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("orders", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("orders", "worker", false, false, false, false, amqp091.Table{"x-priority": int32(3), "mine": amqp091.Table{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"queue": map[string]any{"name": "orders", "vhost": "/"}, "consumer_tag": "worker", "ack_required": true, "exclusive": false,
		"prefetch_count": 5.0, "active": true, "activity_status": "up",
		"arguments": map[string]any{"x-priority": 3.0, "mine": map[string]any{"a": "b"}},
		"priority":  3.0, "messages_unacknowledged": 0.0, "messages_buffered": 0.0, "consumer_timeout": 1.8e6,
		"channel_details": map[string]any{
			"name": fmt.Sprint(of["name"], " (2)"), "number": 2.0, "connection_name": of["name"], "node": of["node"], "user": "guest", "peer_host": "127.0.0.1", "peer_port": of["peer_port"],
		},
	}
	for path, n := range map[string]int{
		"/api/consumers": 1, "/api/consumers/%2F": 1, "/api/consumers/nix": 0, "/api/consumers/%2F?queue=orders": 1, "/api/consumers?queue=order": 0,
	} {
		all := w.rows(path)
		if len(all) != n {
			t.Fatalf("%s: %v", path, all)
		}
		if n == 0 {
			continue
		}
		if since, is := all[0]["since_ms"].(float64); !is || since <= 0 {
			t.Errorf("%s: consumes since %v", path, all[0]["since_ms"])
		}
		delete(all[0], "since_ms")
		if fmt.Sprint(all[0]) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", path, all[0], want)
		}
	}
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	testcluster.Poll(t, "the consumer is gone", func() error {
		var all []map[string]any
		if code, _ := w.ask(http.MethodGet, "/api/consumers", "guest", "guest", &all); code != http.StatusOK || len(all) != 0 {
			return fmt.Errorf("%d, %v", code, all)
		}
		return nil
	})
}

// testRights: looking at all takes the tag monitoring, at one's own and at what a vhost has
// management and a permission there, closing administrator.
func testRights(t *testing.T, b *broker.Broker, w web, connection string) {
	t.Helper()
	ctx := identity.WithIdentity(t.Context(), identity.Itself())
	for name, tags := range map[string][]string{"watcher": {identity.TagMonitoring}, "manager": {identity.TagManagement}, "worker": nil} {
		u := administration.PutUser{Name: name, Password: "p", Tags: tags}
		if _, err := b.Administration.PutUser(ctx, u); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Administration.SetPermission(ctx, administration.Permission{User: name, VHost: "/"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		method, path, user, password string
		want                         int
	}{
		{http.MethodGet, connection, "watcher", "p", http.StatusOK},
		{http.MethodDelete, connection, "watcher", "p", http.StatusForbidden},
		{http.MethodGet, connection, "manager", "p", http.StatusNotFound},
		{http.MethodGet, connection, "worker", "p", http.StatusForbidden},
		{http.MethodGet, connection, "watcher", "q", http.StatusUnauthorized},
		{http.MethodDelete, connection, "guest", "q", http.StatusUnauthorized},
		{http.MethodGet, "/api/whoami", "manager", "p", http.StatusOK},
		{http.MethodGet, "/api/whoami", "worker", "p", http.StatusForbidden},
		{http.MethodGet, "/api/consumers/%2F", "manager", "p", http.StatusOK},
		{http.MethodGet, "/api/consumers", "manager", "p", http.StatusForbidden},
		{http.MethodGet, "/api/consumers/%2F", "worker", "p", http.StatusForbidden},
	} {
		if code, _ := w.ask(x.method, x.path, x.user, x.password, nil); code != x.want {
			t.Errorf("%s %s by %s: %d, want %d", x.method, x.path, x.user, code, x.want)
		}
	}
	var own []map[string]any
	if code, _ := w.ask(http.MethodGet, "/api/connections", "manager", "p", &own); code != http.StatusOK || len(own) != 0 {
		t.Errorf("the connections of others are listed: %d, %v", code, own)
	}
}

// testSilence: what the other nodes have is shown and can be closed; what may be the silent
// one's is not known.
func testSilence(t *testing.T, w web, dead string, before map[string]map[string]any) {
	t.Helper()
	list, silent := w.list()
	if list["first"] == nil || silent != dead {
		t.Errorf("%v, silent %q", list, silent)
	}
	var e map[string]string
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		code, _ := w.ask(method, path(before["second"]), "guest", "guest", &e)
		want := fmt.Sprintf("UNAVAILABLE: connection %q: is not to be found, but %s did not answer; try again", before["second"]["name"], dead)
		if code != http.StatusServiceUnavailable || e["reason"] != want {
			t.Errorf("%d %q, want %q", code, e["reason"], want)
		}
	}
	if code, _ := w.ask(http.MethodDelete, path(before["first"]), "guest", "guest", nil); code != http.StatusNoContent {
		t.Error(code)
	}
}

// What clients call themselves and their consumers hides nothing of their node, even if it is no
// text.
func TestNamesThatAreNoText(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	w := serve(t, c.Broker(2), c.Name(2))
	conn, _ := open(t, c.AMQP(0), "a\xff")
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("q", "c\xff", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if list := w.connections(); list["a\ufffd"] == nil {
		t.Errorf("%v", list)
	}
	if all := w.rows("/api/consumers"); len(all) != 1 || all[0]["consumer_tag"] != "c\ufffd" {
		t.Errorf("%v", all)
	}
}

// What another site's page sends is refused, whatever login the browser adds; programs are not browsers.
func TestOtherSites(t *testing.T) {
	c := testcluster.Start(t, 1)
	w := serve(t, c.Broker(0), c.Name(0))
	for _, x := range []struct {
		site string
		want int
	}{{"cross-site", http.StatusForbidden}, {"same-site", http.StatusForbidden}, {"same-origin", http.StatusCreated}, {"", http.StatusNoContent}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.base+"/api/vhosts/other", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("guest", "guest")
		if x.site != "" {
			r.Header.Set("Sec-Fetch-Site", x.site)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != x.want {
			t.Errorf("from %q: %d, want %d", x.site, answer.StatusCode, x.want)
		}
	}
}

// A path that leaves the name of an exchange empty is about the default exchange, as in RabbitMQ: rabbitmqadmin 2 publishes so.
func TestEmptyNameOfExchange(t *testing.T) {
	c := testcluster.Start(t, 1)
	w := serve(t, c.Broker(0), c.Name(0))
	if code, _ := w.ask(http.MethodPut, "/api/queues/%2F/q", "guest", "guest", nil); code != http.StatusCreated {
		t.Fatal(code)
	}
	var all []map[string]any
	if code, _ := w.ask(http.MethodGet, "/api/exchanges/%2F//bindings/source", "guest", "guest", &all); code != http.StatusOK || len(all) != 1 || all[0]["destination"] != "q" {
		t.Errorf("%d %v", code, all)
	}
}
