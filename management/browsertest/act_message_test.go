package browsertest

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/quorate/quorate/client"
)

// holds is nil if the ready messages of a queue have these message ids, in order.
func holds(ctx context.Context, c *client.Client, queue string, want ...string) error {
	p, err := c.Peek(ctx, client.PeekRequest{Queue: queue, Limit: 100})
	var ids []string
	for _, m := range p.Messages {
		ids = append(ids, m.MessageID)
	}
	return so(err, fmt.Sprint(ids) == fmt.Sprint(want), ids)
}

// furnishMessages fills a queue with messages m2 to m4, of which m1 has died. They are numbered so.
func furnishMessages(s *served, c *client.Client) {
	t := s.t
	declare(t, c, "other", "dead")
	if _, err := c.DeclareQueue(t.Context(), client.Queue{Name: "work", Arguments: client.Table{
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
	}}); err != nil {
		t.Fatal(err)
	}
	for n := range int64(4) {
		id := strconv.FormatInt(n+1, 10)
		publish(t, c, 1, client.Message{RoutingKey: "work", Body: []byte(`{"order": ` + id + `}`), Properties: client.Properties{
			MessageID: "m" + id, ContentType: "application/json", Headers: client.Table{"n": n + 1},
		}})
	}
	m, err := c.Get(t.Context(), client.GetRequest{Queue: "work"})
	if err != nil || m == nil || m.MessageID != "m1" {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := c.Settle(t.Context(), client.SettleRequest{Token: m.Token, Decision: client.Decision{Kind: client.Discard}}); err != nil {
		t.Fatal(err)
	}
	s.await("the dead letter", func() error { return holds(t.Context(), c, "dead", "m1") })
}

// messageGroup publishes, deletes, moves and redrives messages of a queue.
func messageGroup() group {
	at := aboutQueue("/ui/queue/messages", "work")
	chosen := func(number int, job string) func(x *tab) {
		return func(x *tab) {
			x.click(fmt.Sprintf(`input[name=chosen][value="%d"]`, number))
			if job == "move" {
				x.fill("#target", "other")
			}
			x.click(`button[formaction="/ui/queue/messages/` + job + `"]`)
		}
	}
	return group{furnishMessages, []act{
		{
			name: "delete", at: at, path: "/ui/queue/messages/delete", typed: "work", click: chosen(2, "delete"), says: "The operation has begun.",
			asks: []string{"Delete 1 message of queue work?", "They are deleted for good, and are not dead-lettered.", "A dry run has found 1 message now.", "m2"},
			effect: func(ctx context.Context, c *client.Client) error {
				return all(holds(ctx, c, "work", "m3", "m4"), holds(ctx, c, "dead", "m1"))
			},
		},
		{
			name: "move", at: at, path: "/ui/queue/messages/move", typed: "work", click: chosen(3, "move"), says: "The operation has begun.",
			asks: []string{"Move 1 message of queue work?", `They go to queue "other", each once.`, "A dry run has found 1 message now.", "m3"},
			effect: func(ctx context.Context, c *client.Client) error {
				return all(holds(ctx, c, "work", "m4"), holds(ctx, c, "other", "m3"))
			},
		},
		{
			name: "redrive", at: aboutQueue("/ui/queue/dead-letters", "dead"), path: "/ui/queue/messages/redrive", typed: "dead", says: "The operation has begun.",
			click: func(x *tab) { x.click(`main a.main[href^="/ui/queue/messages/redrive"]`) },
			asks:  []string{"Redrive 1 message of queue dead?", "Dead letters go back to the queue where they first died.", "m1"},
			effect: func(ctx context.Context, c *client.Client) error {
				return all(holds(ctx, c, "work", "m4", "m1"), holds(ctx, c, "dead"))
			},
		},
		{
			name: "publish", at: at, path: "/ui/queue/messages/publish", says: "The message is published",
			click: func(x *tab) {
				x.click(`nav.parts a[href^="/ui/queue/messages/publish"]`)
				x.await(`location.pathname === "/ui/queue/messages/publish" && document.readyState === "complete"`)
				x.fill("#body", "by hand")
				x.fill("#headers", `{"n": 7}`)
				x.fill("#p-message_id", "m5")
				x.click("form.publish button.main")
			},
			effect: func(ctx context.Context, c *client.Client) error {
				p, err := c.Peek(ctx, client.PeekRequest{Queue: "work", Filter: client.Filter{MessageIDs: []string{"m5"}}, WithBodies: true})
				return so(err, len(p.Messages) == 1 && string(p.Messages[0].Body) == "by hand" && p.Messages[0].Headers["n"] == int64(7), p)
			},
		},
	}}
}

// ids are those of the messages that the list shows, in order.
const ids = `[...document.querySelectorAll("#list tbody td.id:nth-of-type(2)")].map((x) => x.innerText).join()`

// Messages are filtered and looked at, and stay as they are.
func TestPeek(t *testing.T) {
	s := serve(t)
	c := s.dial(t)
	furnishMessages(s, c)
	x := browse(t, s.base)
	x.login("guest", "guest")
	x.open(aboutQueue("/ui/queue/messages", "work"))
	x.await(ids + ` === "m2,m3,m4"`)
	x.fill("#header", "n")
	x.fill("#value", "3")
	x.click("form.filter button")
	x.await(ids + ` === "m3" && document.readyState === "complete"`)
	x.click("#list tbody th a")
	x.await(`location.pathname === "/ui/queue/message" && document.querySelector("main").innerText.includes("m3") && document.querySelector("pre").innerText.includes('"order": 3')`)
	x.click(`p.parts a[href*="as=hex"]`)
	x.await(`document.querySelector("pre").innerText.startsWith("00000000  7b 22")`)
	x.open(aboutQueue("/ui/queue/messages", "dead"))
	x.await(`document.querySelector("#list .mark").innerText === "dead letter"`)
	x.click("#list tbody th a")
	x.await(`document.querySelector("[aria-labelledby=deaths] tbody").innerText.includes("rejected")`)
	p, err := c.Peek(t.Context(), client.PeekRequest{Queue: "work"})
	if err != nil || len(p.Messages) != 3 {
		t.Fatalf("after they were looked at: %+v, %v", p, err)
	}
	for _, m := range p.Messages {
		if m.AcquiredCount != 0 || m.Redelivered {
			t.Errorf("looking at message %s has taken it: %+v", m.MessageID, m)
		}
	}
}
