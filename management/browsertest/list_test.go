package browsertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/quorate/quorate/client"
)

// names are those of the queues that the list shows, in order.
const names = `[...document.querySelectorAll("#list tbody th")].map((x) => x.innerText)`

// quote writes a string as JavaScript.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can be written
	}
	return string(b)
}

// lists waits until the list shows queues, and no others.
func (x *tab) lists(want ...string) {
	x.t.Helper()
	x.await(names + `.join() === ` + quote(strings.Join(want, ",")))
}

// numbered are names of queues.
func numbered(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("q.%03d", i))
	}
	return all
}

// importQueues declares many queues at once.
func importQueues(t testing.TB, c *client.Client, names []string) {
	t.Helper()
	type queue struct {
		Name      string         `json:"name"`
		VHost     string         `json:"vhost"`
		Durable   bool           `json:"durable"`
		Arguments map[string]any `json:"arguments"`
	}
	var doc struct {
		Queues []queue `json:"queues"`
	}
	for _, n := range names {
		doc.Queues = append(doc.Queues, queue{n, "/", true, map[string]any{"x-queue-type": "quorum"}})
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.ImportDefinitions(t.Context(), client.ImportDefinitionsRequest{Document: text})
	if err != nil || got.Failed+got.Different+got.Refused != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// The list is filtered while a user types, sorted by a click on a column's head and shown in pages; its columns are
// chosen. The address has it all, so that a reload and a bookmark show the same.
func TestList(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	all := numbered(0, 105)
	importQueues(t, c, all)
	publish(t, c, 3, client.Message{RoutingKey: "q.007"})
	publish(t, c, 1, client.Message{RoutingKey: "q.042"})
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open("/ui/queues")
	x.lists(all[:100]...)
	x.click("a[rel=next]")
	x.lists(all[100:]...)
	x.keys("[")
	x.lists(all[:100]...)

	down := slices.Clone(all)
	slices.Reverse(down)
	x.click(`th a[href*="sort=name"]`)
	x.await(`document.querySelector("th[aria-sort=ascending]")`)
	x.click(`th a[href*="sort=name"]`)
	x.lists(down[:100]...)

	x.fill("#name", "q.00")
	x.lists(down[95:]...)
	x.await(`new URLSearchParams(location.search).get("name") === "q.00"`)
	x.fill("#name", "q.0[04][27]")
	x.lists()
	x.click("input[name=use_regex]")
	x.lists("q.047", "q.042", "q.007", "q.002")
	// The figures of a list may be as old as the collector's round.
	x.await(`[...document.querySelectorAll("#list tbody tr")].map((x) => x.cells[5].innerText).join() === "0,1,3,0"`)
	x.click(`th a[href*="sort=messages_ready"]`)
	x.await(`[...document.querySelectorAll("#list tbody th")].slice(0, 2).map((x) => x.innerText).join() === "q.007,q.042"`)

	x.click(".picker summary")
	x.click(`.picker input[value=policy]`)
	x.await(`[...document.querySelectorAll("#list thead th")].some((x) => x.innerText === "Policy")`)
	x.call(chromedp.Reload())
	x.await(`[...document.querySelectorAll("#list thead th")].some((x) => x.innerText === "Policy") && ` + names + `.length === 4`)
	x.click(`#list a[href*="q.007"]`)
	x.await(`location.pathname === "/ui/queue" && document.querySelector("h1").innerText.includes("q.007")`)
}
