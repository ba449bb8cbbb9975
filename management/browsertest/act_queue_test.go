package browsertest

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/client"
)

// aboutQueue is the address of a page about a queue in the default vhost.
func aboutQueue(path, name string) string { return path + "?vhost=%2F&name=" + name }

// ready is nil if a queue has so many ready messages.
func ready(ctx context.Context, c *client.Client, queue string, want uint64) error {
	q, err := c.GetQueue(ctx, client.QueueRef{Name: queue})
	return so(err, q.Stats != nil && q.Figures().MessagesReady == want, q)
}

// noQueue is nil if there is no such queue.
func noQueue(ctx context.Context, c *client.Client, name string) error {
	_, err := c.GetQueue(ctx, client.QueueRef{Name: name})
	if client.ClassOf(err) == client.NotFound {
		return nil
	}
	return so(err, false, "queue "+name)
}

// shopBindings is nil if the exchange shop has so many bindings to a queue.
func shopBindings(ctx context.Context, c *client.Client, destination, key string, want int) error {
	n := 0
	for b, err := range c.Bindings(ctx, "/") {
		if err != nil {
			return err
		}
		if b.Source == "shop" && b.Destination == destination && b.RoutingKey == key {
			n++
		}
	}
	return so(nil, n == want, n)
}

// all is the first error of several.
func all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// queueGroup empties, binds and deletes queues, one by one and several at once.
func queueGroup() group {
	furnish := func(s *served, c *client.Client) {
		declare(s.t, c, "orders", "a", "b", "c")
		if _, err := c.DeclareExchange(s.t.Context(), client.Exchange{Name: "shop", Type: "topic"}); err != nil {
			s.t.Fatal(err)
		}
		publish(s.t, c, 3, client.Message{RoutingKey: "orders"})
		for _, queue := range []string{"a", "b", "c"} {
			publish(s.t, c, 1, client.Message{RoutingKey: queue})
		}
	}
	chosen := func(button string) func(x *tab) {
		return func(x *tab) {
			x.click(`input[value="%2F/a"]`)
			x.click(`input[value="%2F/c"]`)
			x.click(`button[value=` + button + `]`)
		}
	}
	return group{furnish, []act{
		{
			name: "purge", at: aboutQueue("/ui/queue", "orders"), path: "/ui/queue/purge", typed: "orders",
			click: func(x *tab) { x.click(`main a[href^="/ui/queue/purge"]`) },
			asks:  []string{"3 ready messages are deleted for good", "0 unacknowledged"}, says: "The queue is purged.",
			effect: func(ctx context.Context, c *client.Client) error { return ready(ctx, c, "orders", 0) },
		},
		{
			name: "delete", at: aboutQueue("/ui/queue", "orders"), path: "/ui/queue/delete", typed: "orders",
			click: func(x *tab) { x.click(`main a[href^="/ui/queue/delete"]`) },
			asks:  []string{"0 messages are deleted for good", "It has no consumers.", "Its bindings go with it."}, says: "Queue orders is deleted.",
			effect: func(ctx context.Context, c *client.Client) error { return noQueue(ctx, c, "orders") },
		},
		{
			name: "purge several", at: "/ui/queues", path: "/ui/queues/purge", typed: "2", click: chosen("purge"),
			asks: []string{"a in /: 1 messages", "c in /: 1 messages"}, says: "Purged 2 queues.",
			effect: func(ctx context.Context, c *client.Client) error {
				return all(ready(ctx, c, "a", 0), ready(ctx, c, "c", 0), ready(ctx, c, "b", 1))
			},
		},
		{
			name: "delete several", at: "/ui/queues", path: "/ui/queues/delete", typed: "2", click: chosen("delete"),
			asks: []string{"a in /: 0 messages", "c in /: 0 messages"}, says: "Deleted 2 queues.",
			effect: func(ctx context.Context, c *client.Client) error {
				return all(noQueue(ctx, c, "a"), noQueue(ctx, c, "c"), ready(ctx, c, "b", 1))
			},
		},
		{
			name: "bind", at: aboutQueue("/ui/queue/bindings", "b"), path: "/ui/binding/add", says: "The binding is made.",
			click: func(x *tab) {
				x.fill("#source", "shop")
				x.fill("#b-key", "order.#")
				x.click(`form[action="/ui/binding/add"] button`)
			},
			effect: func(ctx context.Context, c *client.Client) error { return shopBindings(ctx, c, "b", "order.#", 1) },
		},
		{
			name: "unbind", at: aboutQueue("/ui/queue/bindings", "b"), path: "/ui/binding/remove", typed: "b",
			click: func(x *tab) { x.click(`main a[href^="/ui/binding/remove"]`) },
			asks:  []string{"Remove the binding of queue b?", "It is bound to exchange shop with the key “order.#”."}, says: "The binding is removed.",
			effect: func(ctx context.Context, c *client.Client) error { return shopBindings(ctx, c, "b", "order.#", 0) },
		},
	}}
}

// exchangeGroup binds, publishes to and deletes an exchange, and deletes a policy.
func exchangeGroup() group {
	const shop = "?vhost=%2F&name=shop"
	furnish := func(s *served, c *client.Client) {
		declare(s.t, c, "q")
		_, declared := c.DeclareExchange(s.t.Context(), client.Exchange{Name: "shop", Type: "topic"})
		_, put := c.PutPolicy(s.t.Context(), client.Policy{Name: "short", Pattern: "^q$", ApplyTo: "queues", Definition: client.Table{"max-length": int64(5)}})
		if err := all(declared, put); err != nil {
			s.t.Fatal(err)
		}
	}
	return group{furnish, []act{
		{
			name: "bind", at: "/ui/exchange" + shop, path: "/ui/binding/add", says: "The binding is made.",
			click: func(x *tab) {
				x.click(`details:has(#f-destination) summary`)
				x.fill("#f-destination", "q")
				x.fill("#f-key", "a.#")
				x.click(`details:has(#f-destination) button.main`)
			},
			effect: func(ctx context.Context, c *client.Client) error { return shopBindings(ctx, c, "q", "a.#", 1) },
		},
		{
			name: "publish", at: "/ui/exchange/publish" + shop, path: "/ui/exchange/publish", says: "The message was routed",
			click: func(x *tab) {
				x.fill("#p-key", "a.b")
				x.fill("#body", "hello")
				x.click(`form[action="/ui/exchange/publish"] button.main`)
			},
			effect: func(ctx context.Context, c *client.Client) error {
				p, err := c.Peek(ctx, client.PeekRequest{Queue: "q", WithBodies: true})
				return so(err, len(p.Messages) == 1 && string(p.Messages[0].Body) == "hello" && p.Messages[0].RoutingKey == "a.b" && p.Messages[0].DeliveryMode == 2, p)
			},
		},
		{
			name: "unbind", at: "/ui/exchange" + shop, path: "/ui/binding/remove", typed: "q", says: "The binding is removed.",
			click:  func(x *tab) { x.click(`main a[href^="/ui/binding/remove"]`) },
			asks:   []string{"It is bound to exchange shop with the key “a.#”.", "What is in queues stays."},
			effect: func(ctx context.Context, c *client.Client) error { return shopBindings(ctx, c, "q", "a.#", 0) },
		},
		{
			name: "delete", at: "/ui/exchange" + shop, path: "/ui/exchange/delete", typed: "shop", says: "Exchange shop is deleted.",
			click: func(x *tab) { x.click(`main a[href^="/ui/exchange/delete"]`) },
			asks:  []string{"0 bindings from it and 0 bindings to it go with it."},
			effect: func(ctx context.Context, c *client.Client) error {
				for x, err := range c.Exchanges(ctx, "/") {
					if err != nil || x.Name == "shop" {
						return so(err, false, x.Name)
					}
				}
				return nil
			},
		},
		{
			name: "delete a policy", at: "/ui/policy?vhost=%2F&name=short", path: "/ui/policy/delete", typed: "short", says: "Policy short is deleted.",
			click: func(x *tab) { x.click(`main a[href^="/ui/policy/delete"]`) },
			asks:  []string{"Settings change of 1 object", "queue q: x-max-length 5 → not set"},
			effect: func(ctx context.Context, c *client.Client) error {
				left, err := client.Collect(c.Policies(ctx, "/"))
				return so(err, len(left) == 0, left)
			},
		},
	}}
}

// memberGroup changes the members of a queue and moves its leadership.
func memberGroup() group {
	members := func(ctx context.Context, c *client.Client, node string, want bool) error {
		q, err := c.GetQueue(ctx, client.QueueRef{Name: "work"})
		has := false
		for _, m := range q.Members {
			has = has || m == node
		}
		return so(err, has == want, q.Members)
	}
	at := aboutQueue("/ui/queue/members", "work")
	return group{
		func(s *served, c *client.Client) {
			declare(s.t, c, "work")
			publish(s.t, c, 2, client.Message{RoutingKey: "work"})
			if err := c.TransferLeadership(s.t.Context(), client.TransferLeadershipRequest{Queue: "work", Node: "node-0"}); err != nil {
				s.t.Fatal(err)
			}
		}, []act{
			{
				name: "transfer leadership", at: at, path: "/ui/queue/members/lead", says: "handed to node node-1",
				click: func(x *tab) { x.click(`button[aria-label="Make leader: node-1"]`) },
				effect: func(ctx context.Context, c *client.Client) error {
					q, err := c.GetQueue(ctx, client.QueueRef{Name: "work"})
					return so(err, q.Leader == "node-1", q.Leader)
				},
			},
			{
				name: "remove", at: at, path: "/ui/queue/members/remove", typed: "node-2", says: "The operation has begun.",
				click: func(x *tab) { x.click(`a[aria-label="Remove node-2"]`) },
				asks:  []string{"Take node node-2 out of queue \"work\"?", "its copy of the messages is deleted"},
				effect: func(ctx context.Context, c *client.Client) error {
					return all(members(ctx, c, "node-2", false), ready(ctx, c, "work", 2))
				},
			},
			{
				name: "add", at: at, path: "/ui/queue/members/add", says: "The operation has begun.",
				click:  func(x *tab) { x.click(`form[action="/ui/queue/members/add"] button`) },
				effect: func(ctx context.Context, c *client.Client) error { return members(ctx, c, "node-2", true) },
			},
		},
	}
}

// connectionGroup closes a client's connection.
func connectionGroup() group {
	return group{
		func(s *served, c *client.Client) {
			declare(s.t, c, "worker")
			s.consumeAs("worker")
		}, []act{{
			name: "close", at: "/ui/connections", path: "/ui/connection/close", typed: asShown, says: "is being closed",
			click: func(x *tab) {
				link := ask[string](x, `[...document.querySelectorAll("#list tbody tr")].find((r) => r.innerText.includes("worker")).querySelector("th a").getAttribute("href")`)
				x.click(fmt.Sprintf(`#list a[href="%s"]`, link))
				x.await(`location.pathname === "/ui/connection" && document.readyState === "complete"`)
				x.fill("#reason", "maintenance")
				x.click(`form[action="/ui/connection/close"] button`)
			},
			asks: []string{"It is of user guest and has 1 open channel.", "The client gets the reason: maintenance"},
			effect: func(ctx context.Context, c *client.Client) error {
				for x, err := range c.Connections(ctx, client.ListConnectionsRequest{}) {
					if err != nil || x.ClientName == "worker" {
						return so(err, false, x)
					}
				}
				return nil
			},
		}},
	}
}
