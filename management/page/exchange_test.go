package page_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker"
)

// hostile are names that a page must show as they are: with HTML, quotes, from right to left, with what addresses and
// paths give a meaning to, and as long as a name can be.
func hostile() []string {
	return []string{`<script>alert(1)</script>`, `"'>&amp;%2F/\`, "שלום עולם", "a?b=c&d#e", "..", strings.Repeat("ü", 127)}
}

// Exchanges are listed, declared, shown and deleted.
func TestExchanges(t *testing.T) {
	x := start(t, 1).login("guest", "guest")
	x.has(x.page("/ui/exchanges"), "(default exchange)", "amq.topic", "x-consistent-hash")
	for _, kind := range broker.ExchangeTypes() {
		x.has(x.page("/ui/exchanges"), "<option>"+kind.Name+"</option>")
	}
	x.has(x.page("/ui/exchange?vhost=%2F&name=amq.topic"), "to the bindings whose pattern matches the key")
	x.has(x.page("/ui/exchanges?name=topic&sort=type"), "amq.topic", "!amq.fanout", `aria-sort="ascending"`)
	x.has(x.page("/ui/exchanges?name=%28&use_regex=false"), "No exchange matches")
	if code, body, _ := x.get("/ui/exchanges?name=%28&use_regex=true"); code != http.StatusBadRequest || !strings.Contains(body, "is no regular expression") {
		t.Errorf("a wrong pattern: %d\n%s", code, body)
	}
	page := x.does("/ui/exchanges/declare", form("vhost", "/", "name", "orders", "type", "topic", "durable", "true", "internal", "true", "alternate", "amq.fanout", "arguments", `{"note": 12345678901234567}`))
	x.has(page, "orders", "topic", "yes: only other exchanges send to it", "alternate-exchange", "12345678901234567")
	x.refuses("/ui/exchanges/declare", form("vhost", "/", "name", "orders", "type", "fanout", "durable", "true"), http.StatusBadRequest, "orders")
	x.refuses("/ui/exchanges/declare", form("vhost", "/", "name", "o", "type", "topic", "arguments", "[1]"), http.StatusBadRequest, "want a JSON object")
	x.refuses("/ui/exchanges/declare", form("vhost", "/", "name", "o", "type", "topic", "arguments", "{} {}"), http.StatusBadRequest, "goes on after")
	x.refuses("/ui/exchanges/declare", form("vhost", "/", "name", "", "type", "topic"), http.StatusNotFound, "is missing")
	x.destroys("/ui/exchange/delete", form("vhost", "/", "name", "orders"), "orders", "0 bindings from it and 0 bindings to it")
	if code, _, _ := x.get("/ui/exchange?vhost=%2F&name=orders"); code != http.StatusNotFound {
		t.Errorf("the deleted exchange: %d", code)
	}
	x.has(x.page("/ui/exchange?vhost=%2F&name=amq.default"), "(default exchange)", "!Delete…", "!/ui/binding/add")
	x.refuses("/ui/exchange/delete", form("vhost", "/", "name", "amq.topic", "typed", "amq.topic"), http.StatusForbidden, "amq.topic")
}

// Exchanges and vhosts are shown with what goes through them.
func TestTrafficOfExchangesAndVHosts(t *testing.T) {
	s := start(t, 1)
	x := s.login("guest", "guest")
	x.does("/ui/queues/declare", form("vhost", "/", "name", "q"))
	for range 3 {
		s.api(http.MethodPost, "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"q","properties":{},"payload":"x","payload_encoding":"string"}`)
	}
	const published = `Published</div><div class="value">3</div>`
	x.await("/ui/exchange?vhost=%2F&name=amq.default", published)
	x.shows("/ui/exchange?vhost=%2F&name=amq.default", published, `Routed to queues</div><div class="value">3</div>`, `In</div><div class="value">`)
	x.shows("/ui/exchange?vhost=%2F&name=amq.topic", `Published</div><div class="value">–</div>`)
	x.shows("/ui/exchanges?sort=message_stats.publish_in_details.rate&sort_reverse=true", "(default exchange)", ">In</a>", ">Out</a>", "/s</td>", `aria-sort="descending"`)
	x.await("/ui/vhost?name=%2F", `Ready</div><div class="value">3</div>`)
	x.shows("/ui/vhosts?sort=messages_ready", ">Ready</a>", ">In</a>", `<td class="number">3</td>`)
}

// Bindings are made and removed from either side, and routing along them is explained.
func TestBindings(t *testing.T) {
	x := start(t, 1).login("guest", "guest")
	x.does("/ui/exchanges/declare", form("vhost", "/", "name", "in", "type", "topic", "durable", "true", "auto_delete", "true"))
	x.does("/ui/queues/declare", form("vhost", "/", "name", "q"))
	page := x.does("/ui/binding/add", form("vhost", "/", "name", "in", "source", "in", "kind", "queue", "destination", "q", "routing_key", "a.*", "arguments", `{"x": "1"}`))
	x.has(page, "The binding is made", "a.*", "/ui/queue?name=q")
	page = x.does("/ui/binding/add", form("vhost", "/", "name", "in", "source", "amq.fanout", "kind", "exchange", "destination", "in"))
	x.has(page, "amq.fanout")
	x.refuses("/ui/binding/add", form("vhost", "/", "name", "in", "source", "in", "kind", "queue", "destination", "nix"), http.StatusNotFound, "nix")
	x.refuses("/ui/binding/add", form("vhost", "/", "name", "in", "source", "in", "kind", "queue", "destination", ""), http.StatusBadRequest, "want a name")

	page = x.page("/ui/exchange/explain?vhost=%2F&name=amq.fanout&routing_key=a.b")
	x.has(page, "It would reach 1 queue", "amq.fanout&#34; → exchange &#34;in", "key &#34;a.*")
	x.has(x.page("/ui/exchange/explain?vhost=%2F&name=in&routing_key=b"), "It would reach no queue", "Does not match", "Why not")
	x.has(x.page("/ui/exchange/explain?vhost=%2F&name=amq.default&routing_key=q"), "It would reach 1 queue")
	x.has(x.page("/ui/exchange/explain?vhost=%2F&name=in&routing_key=b&headers=%7B"), "want a JSON object")

	publish := form("vhost", "/", "name", "in", "routing_key", "a.b", "body", "aGk=", "encoding", "base64", "delivery_mode", "2", "headers", `{"n": 1}`, "priority", "3")
	x.has(x.does("/ui/exchange/publish", publish), "The message was routed")
	publish.Set("routing_key", "b")
	x.has(x.does("/ui/exchange/publish", publish), "The message was not routed")
	publish.Set("priority", "high")
	x.refuses("/ui/exchange/publish", publish, http.StatusBadRequest, "priority")
	publish.Set("priority", "1")
	publish.Set("headers", "{")
	x.refuses("/ui/exchange/publish", publish, http.StatusBadRequest, "want a JSON object")
	code, body := x.byScript("/ui/exchange/publish", form("vhost", "/", "name", "in", "routing_key", "a.b", "body", "p"))
	if code != http.StatusOK || !strings.HasPrefix(body, `<p class="notice">The message was routed`) {
		t.Errorf("a form that stays: %d %s", code, body)
	}

	unbind := regexpOne(t, `href="(/ui/binding/remove[^"]+destination=q[^"]+)"`, x.page("/ui/exchange?vhost=%2F&name=in"))
	path, query, _ := strings.Cut(html.UnescapeString(unbind), "?")
	about, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	x.has(x.destroys(path, about, "q", "a.*", "the last binding from in, which is auto-delete"), "The binding is removed", "Exchanges", "!name=in&")
}

// What users chose as names is shown as it is, and leads back to the thing.
func TestHostileExchanges(t *testing.T) {
	x := start(t, 1).login("guest", "guest")
	for _, name := range hostile() {
		page := x.does("/ui/exchanges/declare", form("vhost", "/", "name", name, "type", "headers", "durable", "true"))
		x.has(page, "!<script>alert")
		x.does("/ui/queues/declare", form("vhost", "/", "name", name))
		x.does("/ui/binding/add", form("vhost", "/", "name", name, "source", name, "kind", "queue", "destination", name, "routing_key", name))
		page = x.page("/ui/exchange/explain?" + form("vhost", "/", "name", name, "routing_key", name).Encode())
		x.has(page, "It would reach 1 queue", "!<script>alert")
		x.has(x.page("/ui/exchanges?"+form("name", name).Encode()), "!<script>alert", "!No exchange matches")
		unbind := regexpOne(t, `href="(/ui/binding/remove[^"]+)"`, x.page("/ui/exchange?"+form("vhost", "/", "name", name).Encode()))
		path, query, _ := strings.Cut(html.UnescapeString(unbind), "?")
		about, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		x.destroys(path, about, name)
		x.destroys("/ui/exchange/delete", form("vhost", "/", "name", name), name)
	}
}
