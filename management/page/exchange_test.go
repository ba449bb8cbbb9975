package page_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// hostile are names that a page must show as they are: with HTML, quotes, from right to left, with what addresses and
// paths give a meaning to, and as long as a name can be.
func hostile() []string {
	return []string{`<script>alert(1)</script>`, `"'>&amp;%2F/\`, "שלום עולם", "a?b=c&d#e", "..", strings.Repeat("ü", 127)}
}

// has reports all texts that a page lacks, and with ! before them those that it has.
func (x *browser) has(page string, texts ...string) {
	x.t.Helper()
	for _, text := range texts {
		without, not := strings.CutPrefix(text, "!")
		if not == strings.Contains(page, without) {
			x.t.Errorf("%q in the page is not as wanted:\n%s", text, page)
		}
	}
}

// does sends a form that must succeed, and returns the page that it leads to.
func (x *browser) does(path string, form url.Values) string {
	x.t.Helper()
	code, body, to := x.post(path, form)
	if code != http.StatusSeeOther {
		x.t.Fatalf("%s %v: %d\n%s", path, form, code, body)
	}
	return x.page(to)
}

// fails sends a form that must be refused with a text.
func (x *browser) fails(path string, form url.Values, want string) {
	x.t.Helper()
	if code, body, _ := x.post(path, form); code < http.StatusBadRequest || !strings.Contains(body, want) {
		x.t.Errorf("%s %v: %d, without %q\n%s", path, form, code, want, body)
	}
}

// destroys answers the question before something is destroyed: first with another name, which does nothing.
func (x *browser) destroys(path string, about url.Values, typed string, says ...string) string {
	x.t.Helper()
	x.has(x.page(path+"?"+about.Encode()), says...)
	form := url.Values{}
	for name, values := range about {
		form[name] = values
	}
	if typed != "" {
		form.Set("typed", typed+"x")
		x.fails(path, form, "nothing was done")
		form.Set("typed", typed)
	}
	return x.does(path, form)
}

// form makes a form of names and values in turn.
func form(pairs ...string) url.Values {
	out := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		out.Add(pairs[i], pairs[i+1])
	}
	return out
}

// Exchanges are listed, declared, shown and deleted.
func TestExchanges(t *testing.T) {
	x := start(t, 1).login("guest", "guest")
	x.has(x.page("/ui/exchanges"), "(default exchange)", "amq.topic", "x-consistent-hash")
	x.has(x.page("/ui/exchanges?name=topic&sort=type"), "amq.topic", "!amq.fanout", `aria-sort="ascending"`)
	x.has(x.page("/ui/exchanges?name=%28&use_regex=false"), "No exchange matches")
	if code, body, _ := x.get("/ui/exchanges?name=%28&use_regex=true"); code != http.StatusBadRequest || !strings.Contains(body, "is no regular expression") {
		t.Errorf("a wrong pattern: %d\n%s", code, body)
	}
	page := x.does("/ui/exchanges/declare", form("vhost", "/", "name", "orders", "type", "topic", "durable", "true", "internal", "true", "alternate", "amq.fanout", "arguments", `{"note": 12345678901234567}`))
	x.has(page, "orders", "topic", "yes: only other exchanges send to it", "alternate-exchange", "12345678901234567")
	x.fails("/ui/exchanges/declare", form("vhost", "/", "name", "orders", "type", "fanout", "durable", "true"), "orders")
	x.fails("/ui/exchanges/declare", form("vhost", "/", "name", "o", "type", "topic", "arguments", "[1]"), "want a JSON object")
	x.fails("/ui/exchanges/declare", form("vhost", "/", "name", "o", "type", "topic", "arguments", "{} {}"), "goes on after")
	x.fails("/ui/exchanges/declare", form("vhost", "/", "name", "", "type", "topic"), "is missing")
	x.destroys("/ui/exchange/delete", form("vhost", "/", "name", "orders"), "orders", "0 bindings from it and 0 bindings to it")
	if code, _, _ := x.get("/ui/exchange?vhost=%2F&name=orders"); code != http.StatusNotFound {
		t.Errorf("the deleted exchange: %d", code)
	}
	x.has(x.page("/ui/exchange?vhost=%2F&name=amq.default"), "(default exchange)", "!Delete…", "!/ui/exchange/bind")
	x.fails("/ui/exchange/delete", form("vhost", "/", "name", "amq.topic", "typed", "amq.topic"), "amq.topic")
}

// Bindings are made and removed from either side, and routing along them is explained.
func TestBindings(t *testing.T) {
	x := start(t, 1).login("guest", "guest")
	x.does("/ui/exchanges/declare", form("vhost", "/", "name", "in", "type", "topic", "durable", "true", "auto_delete", "true"))
	x.does("/ui/queues/declare", form("vhost", "/", "name", "q"))
	page := x.does("/ui/exchange/bind", form("vhost", "/", "name", "in", "source", "in", "kind", "queue", "destination", "q", "routing_key", "a.*", "arguments", `{"x": "1"}`))
	x.has(page, "The binding is made", "a.*", "/ui/queue?name=q")
	page = x.does("/ui/exchange/bind", form("vhost", "/", "name", "in", "source", "amq.fanout", "kind", "exchange", "destination", "in"))
	x.has(page, "amq.fanout")
	x.fails("/ui/exchange/bind", form("vhost", "/", "name", "in", "source", "in", "kind", "queue", "destination", "nix"), "nix")
	x.fails("/ui/exchange/bind", form("vhost", "/", "name", "in", "source", "in", "kind", "queue", "destination", ""), "want a name")

	page = x.page("/ui/exchange/explain?vhost=%2F&name=amq.fanout&routing_key=a.b")
	x.has(page, "It would reach 1 queue", "amq.fanout&#34; → exchange &#34;in", "key &#34;a.*")
	x.has(x.page("/ui/exchange/explain?vhost=%2F&name=in&routing_key=b"), "It would reach no queue", "Does not match", "Why not")
	x.has(x.page("/ui/exchange/explain?vhost=%2F&name=amq.default&routing_key=q"), "It would reach 1 queue")
	x.has(x.page("/ui/exchange/explain?vhost=%2F&name=in&routing_key=b&headers=%7B"), "want a JSON object")

	publish := form("vhost", "/", "name", "in", "routing_key", "a.b", "payload", "aGk=", "base64", "true", "persistent", "true", "headers", `{"n": 1}`, "priority", "3")
	x.has(x.does("/ui/exchange/publish", publish), "The message was routed")
	publish.Set("routing_key", "b")
	x.has(x.does("/ui/exchange/publish", publish), "The message was not routed")
	publish.Set("priority", "high")
	x.fails("/ui/exchange/publish", publish, "priority")
	publish.Set("priority", "1")
	publish.Set("headers", "{")
	x.fails("/ui/exchange/publish", publish, "want a JSON object")
	code, body := x.byScript("/ui/exchange/publish", form("vhost", "/", "name", "in", "routing_key", "a.b", "payload", "p"))
	if code != http.StatusOK || !strings.HasPrefix(body, `<p class="notice">The message was routed`) {
		t.Errorf("a form that stays: %d %s", code, body)
	}

	unbind := regexpOne(t, `href="(/ui/exchange/unbind[^"]+destination=q[^"]+)"`, x.page("/ui/exchange?vhost=%2F&name=in"))
	path, query, _ := strings.Cut(html.UnescapeString(unbind), "?")
	about, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	x.has(x.destroys(path, about, "", "a.*", "the last binding from in, which is auto-delete"), "The binding is removed", "Exchanges", "!name=in&")
}

// What users chose as names is shown as it is, and leads back to the thing.
func TestHostileExchanges(t *testing.T) {
	x := start(t, 1).login("guest", "guest")
	for _, name := range hostile() {
		page := x.does("/ui/exchanges/declare", form("vhost", "/", "name", name, "type", "headers", "durable", "true"))
		x.has(page, "!<script>alert")
		x.does("/ui/queues/declare", form("vhost", "/", "name", name))
		x.does("/ui/exchange/bind", form("vhost", "/", "name", name, "source", name, "kind", "queue", "destination", name, "routing_key", name))
		page = x.page("/ui/exchange/explain?" + form("vhost", "/", "name", name, "routing_key", name).Encode())
		x.has(page, "It would reach 1 queue", "!<script>alert")
		x.has(x.page("/ui/exchanges?"+form("name", name).Encode()), "!<script>alert", "!No exchange matches")
		unbind := regexpOne(t, `href="(/ui/exchange/unbind[^"]+)"`, x.page("/ui/exchange?"+form("vhost", "/", "name", name).Encode()))
		path, query, _ := strings.Cut(html.UnescapeString(unbind), "?")
		about, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		x.destroys(path, about, "")
		x.destroys("/ui/exchange/delete", form("vhost", "/", "name", name), name)
	}
}
