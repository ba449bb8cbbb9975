package browsertest

import (
	"context"
	"slices"

	"github.com/quorate/quorate/client"
)

// drained is nil if a node says that it is drained, or not.
func drained(node string, want bool) func(ctx context.Context, c *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		s, err := c.ClusterDetails(ctx)
		for _, n := range s.Nodes {
			if n.ID == node && n.Start != nil { // it has answered
				return so(err, n.Draining == want, n)
			}
		}
		return so(err, false, s)
	}
}

// nodeGroup moves work away from a node and back.
func nodeGroup() group {
	const node = "/ui/node?name=node-0"
	hosts := func(want bool) func(ctx context.Context, c *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			q, err := c.GetQueue(ctx, client.QueueRef{Name: "q"})
			return so(err, slices.Contains(q.Members, "node-0") == want, q.Members)
		}
	}
	unfolds := func(act, button string) func(x *tab) {
		form := `form[action="/ui/node/` + act + `"]`
		return func(x *tab) {
			x.click(`details:has(` + form + `) summary`)
			x.click(form + ` ` + button)
		}
	}
	return group{func(s *served, c *client.Client) { declare(s.t, c, "q") }, []act{
		{
			name: "drain", at: node, path: "/ui/node/drain", typed: "node-0", says: "The drain has begun.", click: unfolds("drain", "button"),
			asks: []string{"Drain node node-0?", "The node then serves no clients until the drain is undone", "It stays a member of its 1 queue."}, effect: drained("node-0", true),
		},
		{
			name: "undo the drain", at: node, path: "/ui/node/undrain", says: "The node takes work again.", effect: drained("node-0", false),
			click: func(x *tab) { x.click(`form[action="/ui/node/undrain"] button`) },
		},
		{
			name: "shrink", at: node, path: "/ui/node/shrink", typed: "node-0", says: "The node is being taken out of its queues.", click: unfolds("shrink", "button"),
			asks: []string{"1 change is planned:", "leaves, 2 of 3 members stay"}, effect: hosts(false),
		},
		{
			name: "grow", at: node, path: "/ui/node/grow", typed: "node-0", says: "The node is being made a member.", click: unfolds("grow", "button"),
			asks: []string{"1 change is planned:"}, effect: hosts(true),
		},
		{
			name: "rebalance", at: "/ui/nodes", path: "/ui/nodes/rebalance", says: "The rebalance has begun.",
			click: func(x *tab) { x.click(`main a[href="/ui/nodes/rebalance"]`) },
			asks:  []string{"Members and leaders are spread evenly over the nodes.", "Now node-0 leads"}, // its plan may be empty
			effect: func(ctx context.Context, c *client.Client) error {
				jobs, err := client.Collect(c.Operations(ctx, client.ListOperationsRequest{}))
				return so(err, slices.ContainsFunc(jobs, func(o client.Operation) bool {
					return o.Kind == "rebalance-queues" && o.State == client.OperationDone
				}), jobs)
			},
		},
	}}
}

// operationGroup watches the progress of a long job, and cancels it.
func operationGroup() group {
	return group{
		func(s *served, c *client.Client) {
			declare(s.t, c, "slow")
			publish(s.t, c, 500, client.Message{RoutingKey: "slow"})
			if _, err := c.DeleteMessages(s.t.Context(), client.MessageJob{Queue: "slow", Rate: 1}); err != nil {
				s.t.Fatal(err)
			}
		}, []act{{
			name: "cancel", at: "/ui/operations", path: "/ui/operation/cancel", typed: "delete-messages", says: "The operation was asked to end.", running: true,
			click: func(x *tab) {
				x.await(`document.querySelector("#list progress").max === 500`)
				x.click(`#list tbody th a`)
				const bar = `document.querySelector("main progress")`
				x.await(`location.pathname === "/ui/operation" && ` + bar + `.max === 500`)
				x.await(bar + `.value > ` + ask[string](x, `String(`+bar+`.value)`)) // by itself, without a reload
				x.click(`main a[href^="/ui/operation/cancel"]`)
			},
			asks: []string{"It ends as soon as it can.", "What it has changed so far stays:", "of 500 are done."},
			effect: func(ctx context.Context, c *client.Client) error {
				jobs, err := client.Collect(c.Operations(ctx, client.ListOperationsRequest{}))
				if err != nil || len(jobs) != 1 || jobs[0].State != client.OperationCancelled {
					return so(err, false, jobs)
				}
				q, err := c.GetQueue(ctx, client.QueueRef{Name: "slow"})
				return so(err, q.Figures().MessagesReady > 0, q)
			},
		}},
	}
}
