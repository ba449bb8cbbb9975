package browsertest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
)

// hostile are names that would do harm if they were written into a page as they are, or that break a careless layout or
// address.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(2)>`, `' onmouseover='alert(3)`, `{{.}}${alert(4)}&lt;&amp;`,
		"שלום-\u202eעולם", `a/b?c=d#e%2F..;f`, strings.Repeat("w", 255),
	}
}

// furnishHostile gives things of every kind each name.
func (s *served) furnishHostile(c *client.Client) {
	t := s.t
	t.Helper()
	for i, name := range hostile() {
		vhost := client.VHost{Name: name, Description: name, Tags: []string{name}}
		table := client.Table{"h": name, "table": client.Table{"k": name}}
		table[cut(name, 128)] = []any{name}
		for what, do := range map[string]func() error{
			"vhost": func() error { _, err := c.PutVHost(t.Context(), vhost); return err },
			"user": func() error {
				_, err := c.PutUser(t.Context(), client.User{Name: userName(name), Password: "p", Tags: []string{"monitoring", cut(name, 64)}})
				return err
			},
			"exchange": func() error {
				_, err := c.DeclareExchange(t.Context(), client.Exchange{Name: name, Type: "topic"})
				return err
			},
			"queue": func() error { _, err := c.DeclareQueue(t.Context(), client.Queue{Name: name}); return err },
			"policy": func() error {
				_, err := c.PutPolicy(t.Context(), client.Policy{Name: name, Pattern: "^nothing", ApplyTo: "queues", Priority: int64(i), Definition: client.Table{"dead-letter-exchange": name}})
				return err
			},
			"operator policy": func() error {
				_, err := c.PutPolicy(t.Context(), client.Policy{Name: name, Operator: true, Pattern: "^nothing", ApplyTo: "queues", Definition: client.Table{"max-length": int64(1)}})
				return err
			},
		} {
			if err := do(); err != nil {
				t.Fatalf("%s %q: %v", what, name, err)
			}
		}
		for _, do := range []func() error{
			func() error {
				return c.Bind(t.Context(), client.Binding{Source: name, Destination: name, RoutingKey: name, Arguments: table})
			},
			func() error {
				_, err := c.SetPermission(t.Context(), client.Permission{User: userName(name), VHost: name, Configure: ".*", Write: ".*", Read: ".*"})
				return err
			},
			func() error {
				_, err := c.SetPermission(t.Context(), client.Permission{User: "guest", VHost: name, Configure: ".*", Write: ".*", Read: ".*"})
				return err
			},
			func() error { _, err := c.DeclareQueue(t.Context(), client.Queue{VHost: name, Name: name}); return err },
		} {
			if err := do(); err != nil {
				t.Fatalf("%q: %v", name, err)
			}
		}
		publish(t, c, 2, client.Message{Exchange: name, RoutingKey: name, Body: []byte(name), Properties: client.Properties{
			Headers: table, MessageID: name, CorrelationID: name, ContentType: name, ReplyTo: name, AppID: name, Type: name,
		}})
		s.consumeAs(name)
	}
}

// userName is a name for a user; a colon would end it in a header of HTTP.
func userName(name string) string { return strings.ReplaceAll(name, ":", ".") }

// consumeAs connects a client that gives everything that it may name the name.
func (s *served) consumeAs(name string) {
	s.t.Helper()
	conn, err := amqp091.DialConfig("amqp://guest:guest@"+s.cluster.AMQP(0)+"/", amqp091.Config{Properties: amqp091.Table{
		"connection_name": name, "product": name, "version": name, "platform": name,
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			s.t.Log(err)
		}
	})
	ch, err := conn.Channel()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := ch.Qos(1, 0, false); err != nil {
		s.t.Fatal(err)
	}
	if _, err := ch.ConsumeWithContext(s.t.Context(), name, name, false, false, false, false, nil); err != nil {
		s.t.Fatal(err)
	}
}

// harm counts what a name must not become: scripts that are not the page's own, attributes with scripts in them, and
// elements that no page of ours has.
const harm = `document.querySelectorAll("script:not([src^='/ui/static/']), img:not([src^='/ui/static/']), iframe, object, embed, base").length +
	[...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on") || /^\s*javascript:/i.test(a.value))).length`

// Names that users choose are text on every page: none becomes markup or a script, none leads a link astray, and none
// makes a page wider than the screen.
func TestHostileNames(t *testing.T) {
	s := serve(t)
	s.furnishHostile(s.dial(t))
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.call(chromedp.Evaluate[chromedp.Void](`localStorage.setItem("live", "off")`)) // the refreshes are the test's
	w := newWalk(x, func(u *url.URL) string {
		q := u.Query()
		for _, choice := range []string{"sort", "sort_reverse", "page", "column"} {
			q.Del(choice)
		}
		if strings.HasPrefix(q.Get("name"), "amq.") { // of one vhost as of another
			q.Del("vhost")
		}
		return u.Path + "?" + q.Encode()
	})
	w.add("", "/ui/")
	pages, kinds := 0, map[string]bool{}
	w.each(func(to link) {
		pages++
		w.judgeNames(to.address)
		if path, _, _ := strings.Cut(to.address, "?"); !kinds[path] {
			kinds[path] = true
			w.refreshed(to)
		}
	})
	t.Logf("%d pages of %d kinds", pages, len(kinds))
	for _, name := range hostile() {
		w.follow(link{address: "/ui/queue?" + url.Values{"vhost": {name}, "name": {name}}.Encode()})
		if title := ask[string](x, `document.querySelector("h1").textContent`); !strings.Contains(title, name) {
			t.Errorf("the queue %q has the title %q", name, title)
		}
	}
}

// refreshed judges a page that is open after a refresh. What a page may be answered with, a refresh may be, too.
func (w *walk) refreshed(to link) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); slices.Contains(mayPass(), w.refresh()); {
		if time.Now().After(deadline) {
			w.fail("%s is not refreshed within %v", to.address, patience)
		}
		if !w.follow(to) {
			return
		}
	}
	w.judgeNames(to.address + " refreshed")
}

// judgeNames reports what names have done to a page.
func (x *tab) judgeNames(address string) {
	x.t.Helper()
	if n := ask[int](x, harm); n > 0 {
		x.t.Errorf("%s has %d elements of a name's making", address, n)
	}
	if faults := ask[string](x, `[...document.querySelectorAll(".fault")].map((e) => e.innerText).join("; ")`); faults != "" {
		x.t.Errorf("%s shows an error: %s", address, faults)
	}
	if wide := x.wide(1280); len(wide) > 0 {
		x.t.Errorf("%s is wider than a screen of 1280 pixels: %q", address, wide)
	}
	if n := ask[int](x, `document.querySelectorAll("#live").length`); n > 1 {
		x.t.Errorf("%s has %d Live buttons", address, n)
	}
}

// refresh has the page refresh all that is live in it, and returns the highest code of the answers; 0: nothing is live, or
// no answer came.
func (x *tab) refresh() int64 {
	x.t.Helper()
	return ask[int64](x, `(async () => {
		const live = document.querySelectorAll("[hx-trigger*='refresh']").length;
		if (live === 0) return 0;
		let code = 0, ended = 0;
		await new Promise((end) => {
			document.addEventListener("htmx:finally:request", (e) => {
				code = Math.max(code, e.detail.ctx.response?.status ?? 0);
				if (++ended === live) end();
			});
			document.body.dispatchEvent(new CustomEvent("refresh"));
		});
		return code;
	})()`)
}

// A queue of any name is deleted by the page.
func TestHostileDeletions(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	declare(t, c, hostile()...)
	x := browse(t, s.base)
	x.login("guest", "guest")
	for _, name := range hostile() {
		x.open("/ui/queue/delete?" + url.Values{"vhost": {"/"}, "name": {name}}.Encode())
		x.call(chromedp.SetValue(chromedp.CSS("#typed"), name))
		x.click("form.question button")
		x.await(fmt.Sprintf(`location.pathname === "/ui/queues" && notice.innerText === %s`, quote("Queue "+name+" is deleted.")))
		if _, err := c.GetQueue(t.Context(), client.QueueRef{Name: name}); client.ClassOf(err) != client.NotFound {
			t.Errorf("queue %q after its deletion: %v", name, err)
		}
	}
}

// cut returns the first bytes of a text, and no half of a character.
func cut(text string, bytes int) string { return strings.ToValidUTF8(text[:min(len(text), bytes)], "") }
