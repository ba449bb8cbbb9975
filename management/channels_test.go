package management_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/testcluster"
)

// rows asks for a list.
func (w web) rows(path string) []map[string]any {
	w.t.Helper()
	var all []map[string]any
	w.heard(path, "guest", "guest", &all)
	return all
}

// testChannels: the channels of another node's connection are shown as RabbitMQ would, with what they hold; one that
// publishes, one that consumes, and one with transactions.
func testChannels(t *testing.T, w web, c *amqp091.Connection, of map[string]any) {
	t.Helper()
	var chs [3]*amqp091.Channel
	var errs [8]error
	for i := range chs {
		chs[i], errs[i] = c.Channel()
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	publishes, consumes, transacts := chs[0], chs[1], chs[2]
	_, errs[0] = publishes.QueueDeclare("held", true, false, false, false, nil)
	errs[1] = publishes.Confirm(false)
	errs[2] = consumes.Qos(2, 0, false)
	errs[3] = transacts.Tx()
	_, errs[4] = consumes.Consume("held", "holder", false, false, false, false, nil)
	for i := range 3 {
		errs[5+i] = publishes.PublishWithContext(t.Context(), "", "held", false, false, amqp091.Publishing{})
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	connection := map[string]any{"name": of["name"], "peer_host": "127.0.0.1", "peer_port": of["peer_port"]}
	channel := func(number int, differs map[string]any) string {
		x := map[string]any{
			"name": fmt.Sprintf("%s (%d)", of["name"], number), "number": number, "node": of["node"], "vhost": "/", "user": "guest", "user_who_performed_action": "guest",
			"state": "running", "confirm": false, "transactional": false, "prefetch_count": 0, "global_prefetch_count": 0, "consumer_count": 0,
			"messages_unacknowledged": 0, "messages_unconfirmed": 0, "connection_details": connection,
		}
		for k, v := range differs {
			x[k] = v
		}
		return fmt.Sprint(x)
	}
	want := []string{ // the client has counted past the channel of testConsumers
		channel(1, nil), channel(3, map[string]any{"confirm": true}),
		channel(4, map[string]any{"prefetch_count": 2, "consumer_count": 1, "messages_unacknowledged": 2}), channel(5, map[string]any{"transactional": true}),
	}
	testcluster.Poll(t, "the channels are as their clients use them", func() error {
		all := w.rows(path(of) + "/channels")
		for i := range want {
			if len(all) != len(want) || fmt.Sprint(all[i]) != want[i] {
				return fmt.Errorf("%v, want %v", all, want)
			}
		}
		return nil
	})
	for path, n := range map[string]int{ // with one of the second connection; gRPC has none
		"/api/channels": 5, "/api/vhosts/%2F/channels": 5, "/api/channels?name=" + url.QueryEscape(fmt.Sprint(of["name"])): 4,
		"/api/channels?name=(4)&columns=number": 1, "/api/vhosts/%2F/connections": 2, "/api/connections/username/guest": 3, "/api/connections/username/nix": 0,
		"/api/connections/username/%2F": 0, "/api/connections/username/channels": 0,
	} {
		if all := w.rows(path); len(all) != n {
			t.Errorf("%s: %v, want %d", path, all, n)
		}
	}
	var one map[string]any
	consuming := "/api/channels/" + url.PathEscape(fmt.Sprint(of["name"], " (4)"))
	code, _ := w.ask(http.MethodGet, consuming, "guest", "guest", &one)
	details, _ := one["consumer_details"].([]any)
	if delete(one, "consumer_details"); code != http.StatusOK || fmt.Sprint(one) != want[2] || len(details) != 1 {
		t.Errorf("%d %v, consumers %v", code, one, details)
	}
	for path, want := range map[string]int{
		consuming + "4": http.StatusNotFound, "/api/channels/nix": http.StatusNotFound, "/api/channels/nix%20(1)": http.StatusNotFound,
		"/api/channels/first%20(1)": http.StatusOK, "/api/channels/first%20(9)": http.StatusNotFound,
		"/api/vhosts/nix/channels": http.StatusNotFound, "/api/vhosts/nix/connections": http.StatusNotFound, "/api/connections/nix/channels": http.StatusNotFound,
	} {
		if code, _ := w.ask(http.MethodGet, path, "guest", "guest", nil); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	if err := consumes.Cancel("holder", false); err != nil {
		t.Fatal(err)
	}
	if x := w.rows(path(of) + "/channels")[2]; x["consumer_count"] != 0.0 || x["messages_unacknowledged"] != 2.0 {
		t.Errorf("after a cancel: %v", x)
	}
	for _, ch := range chs {
		if err := ch.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if all := w.rows(path(of) + "/channels"); len(all) != 1 {
		t.Errorf("channels that are closed: %v", all)
	}
}

// testConnectionsOfAUser: one sees its own, and they are closed together.
func testConnectionsOfAUser(t *testing.T, w web, address string) {
	t.Helper()
	const user = "manager" // as testRights has made it
	var closed [2]chan *amqp091.Error
	for i := range closed {
		c, err := amqp091.Dial("amqp://" + user + ":p@" + address + "/")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // it is closed by then
		if _, err := c.Channel(); err != nil {
			t.Fatal(err)
		}
		closed[i] = c.NotifyClose(make(chan *amqp091.Error, 1))
	}
	for _, path := range []string{"/api/channels", "/api/connections", "/api/connections/username/" + user, "/api/vhosts/%2F/connections", "/api/vhosts/%2F/channels"} {
		var own []map[string]any
		if w.heard(path, user, "p", &own); len(own) != len(closed) {
			t.Errorf("%s: %v", path, own)
		}
	}
	if code, _ := w.ask(http.MethodDelete, "/api/connections/username/"+user, user, "p", nil); code != http.StatusForbidden {
		t.Error(code)
	}
	if code, _ := w.ask(http.MethodDelete, "/api/connections/username/"+user, "guest", "guest", nil); code != http.StatusNoContent {
		t.Error(code)
	}
	for _, c := range closed {
		forced(t, c, "it is time")
	}
}
