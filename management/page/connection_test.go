package page_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// dial opens a connection whose client says hostile things of itself, with a consumer.
func dial(t *testing.T, address, name, tag string) (*amqp091.Connection, chan *amqp091.Error) {
	t.Helper()
	c, err := amqp091.DialConfig("amqp://guest:guest@"+address+"/", amqp091.Config{Properties: amqp091.Table{"connection_name": name, "<img>": "\u202eabc"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // most are closed by then
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Qos(7, 0, false); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.Consume("q", tag, false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	return c, c.NotifyClose(make(chan *amqp091.Error, 1))
}

// Connections are shown with what their clients say, which cannot harm the page, and are closed with a reason.
func TestConnections(t *testing.T) {
	s, c := startCluster(t, 1)
	x := s.login("guest", "guest")
	x.leads("/ui/queues/declare", url.Values{"vhost": {"/"}, "name": {"q"}})
	const name, tag = `"><script>alert(1)</script>`, "<b>tag</b>"
	conn, closed := dial(t, c.AMQP(0), name, tag)
	full := strings.Repeat("é", 127)
	dial(t, c.AMQP(0), full, "other")
	list := x.shows("/ui/connections", "&lt;script&gt;", "!<script>alert", full, "AMQP", "running")
	mine := conn.LocalAddr().String()
	about := html.UnescapeString(regexp.MustCompile(`/ui/connection\?name=` + regexp.QuoteMeta(url.QueryEscape(mine)) + `[^"]+`).FindString(list))
	_, real, _ := strings.Cut(about, "=")
	real, err := url.QueryUnescape(real)
	if err != nil || real == "" {
		t.Fatalf("no link to %s in\n%s", mine, list)
	}
	x.shows("/ui/connections?name="+url.QueryEscape(mine), mine, "!"+full)
	x.shows("/ui/connections?name=nobody", "No connection matches")
	x.shows(about, "&lt;script&gt;", "!<script>alert", "&lt;img&gt;", "!<img>", "&lt;b&gt;tag", "!<b>", "guest", "Close the connection…", "!other")
	x.shows("/ui/consumers", "&lt;b&gt;tag", "!<b>", "other", ">7<", "by the client")
	x.shows("/ui/consumers?vhost=%2F&name=other", "other", "!&lt;b&gt;tag")
	x.shows(about, "no answers", ">7<")
	x.shows("/ui/channels", mine, "no answers", "!<script>alert")
	x.shows("/ui/channels?vhost=%2F&name="+url.QueryEscape(mine), mine)
	x.shows("/ui/connections?vhost=%2F", mine)
	x.shows("/ui/connections?user=nobody", "!"+mine)
	form := url.Values{"name": {real}, "reason": {"it is <time>\n"}}
	x.shows("/ui/connection/close?"+form.Encode(), "it is &lt;time&gt;", "Its consumers are cancelled", ">"+mine+"</strong>")
	x.refuses("/ui/connection/close", form, http.StatusBadRequest, "nothing was done")
	form.Set("typed", mine)
	s.addUser("watcher", "monitoring")
	w := s.login("watcher", "p")
	w.shows(about, "&lt;script&gt;", "!Close the connection")
	w.refuses("/ui/connection/close", url.Values{"name": {real}, "typed": {mine}}, http.StatusForbidden, "administrator")
	s.addUser("manager", "management")
	s.login("manager", "p").shows("/ui/connections", "!"+mine, "No client is connected")
	if to := x.leads("/ui/connection/close", form); to != "/ui/connections" {
		t.Errorf("leads to %s", to)
	}
	select {
	case err := <-closed:
		if err == nil || !strings.Contains(err.Reason, "it is <time>") {
			t.Errorf("%+v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the connection is not closed")
	}
}
