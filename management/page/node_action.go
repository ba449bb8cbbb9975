package page

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// nodeActions move work between nodes. All but undrain begin a long job, and lead to it.
func nodeActions() []action {
	return []action{
		{path: "/ui/node/drain", asks: asksDrain, does: drainNode},
		{path: "/ui/node/undrain", does: undrainNode},
		{path: "/ui/node/grow", asks: asksGrow, does: growQueues},
		{path: "/ui/node/shrink", asks: asksShrink, does: shrinkNode},
		{path: "/ui/nodes/rebalance", asks: asksRebalance, does: rebalanceQueues},
	}
}

// begin sends what begins a long job, or with a dry run only plans it.
func (v *visit) begin(method string, body any, dry bool, path string, names ...string) (b begun, err error) {
	at := apiPath(path, names...)
	if dry {
		at += "?dry_run=true"
	}
	_, err = v.call(method, at, body, &b)
	return b, err
}

// asksDrain shows which leaders move.
func asksDrain(v *visit) (question, error) {
	n, err := v.getNode()
	if err != nil {
		return question{}, err
	}
	if _, err := v.drainTime(); err != nil {
		return question{}, err
	}
	b, err := v.begin(http.MethodPost, map[string]any{}, true, "/v1/nodes/%s/drain", n.Name)
	return question{
		Title: "Drain node " + n.Name + "?", Name: n.Name, Button: "Drain", Back: v.aboutNode(), Plan: b.shortened(),
		Lines: []string{
			"The leaders of " + plural(b.Total, "queue") + " move to other nodes.", "The node then serves no clients until the drain is undone or it is restarted.",
			"It stays a member of its " + plural(n.Members, "queue") + ".",
		},
	}, err
}

// drainTime is how long a drain may take, in milliseconds; 0: as long as it takes.
func (v *visit) drainTime() (int64, error) {
	text := v.FormValue("seconds")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, badForm("seconds", strconv.Quote(text)+" is no whole number of seconds")
	}
	return n * 1000, nil
}

func drainNode(v *visit) (outcome, error) {
	within, err := v.drainTime()
	if err != nil {
		return outcome{}, err
	}
	b, err := v.begin(http.MethodPost, map[string]any{"timeout_ms": within}, false, "/v1/nodes/%s/drain", v.thisNode())
	return b.outcome("The drain has begun."), err
}

func undrainNode(v *visit) (outcome, error) {
	err := v.change(http.MethodPost, nil, nil, "/v1/nodes/%s/undrain", v.thisNode())
	return outcome{v.aboutNode(), "The node takes work again."}, err
}

// growBody is what the form says about the queues that a node becomes a member of.
func (v *visit) growBody() map[string]any {
	body := map[string]any{"strategy": "all"}
	if v.FormValue("even") != "" {
		body["strategy"] = "even"
	}
	for field, parameter := range map[string]string{"vhost": "vhost_pattern", "queue": "queue_pattern"} {
		if name := v.FormValue(field); name != "" {
			body[parameter] = "^" + regexp.QuoteMeta(name) + "$"
		}
	}
	return body
}

func asksGrow(v *visit) (question, error) {
	b, err := v.begin(http.MethodPost, v.growBody(), true, "/api/queues/quorum/replicas/on/%s/grow", v.thisNode())
	return v.planned("Make "+v.thisNode()+" a member of queues?", "Grow", &b), err
}

func growQueues(v *visit) (outcome, error) {
	b, err := v.begin(http.MethodPost, v.growBody(), false, "/api/queues/quorum/replicas/on/%s/grow", v.thisNode())
	return b.outcome("The node is being made a member."), err
}

// planned is the question about what a dry run has planned for the node of this visit.
func (v *visit) planned(title, button string, b *begun) question {
	return question{Title: title, Lines: b.lines(), Name: v.thisNode(), Button: button, Back: v.aboutNode()}
}

func asksShrink(v *visit) (question, error) {
	b, err := v.begin(http.MethodDelete, nil, true, "/api/queues/quorum/replicas/on/%s/shrink", v.thisNode())
	return v.planned("Take "+v.thisNode()+" out of all queues?", "Shrink", &b), err
}

func shrinkNode(v *visit) (outcome, error) {
	b, err := v.begin(http.MethodDelete, nil, false, "/api/queues/quorum/replicas/on/%s/shrink", v.thisNode())
	return b.outcome("The node is being taken out of its queues."), err
}

// asksRebalance shows how queues lie now, and what would move. Nothing is destroyed, so there is no name to type.
func asksRebalance(v *visit) (question, error) {
	var nodes []nodeFigures
	if err := v.get(&nodes, "/api/nodes"); err != nil {
		return question{}, err
	}
	now := make([]string, len(nodes))
	for i := range nodes {
		now[i] = nodes[i].Name + " leads " + count(nodes[i].Leaders) + " of its " + count(nodes[i].Members)
	}
	b, err := v.begin(http.MethodPost, nil, true, "/api/rebalance/queues")
	q := question{
		Title: "Rebalance all queues?", Button: "Rebalance", Back: "/ui/nodes", Fields: url.Values{}, Plan: b.shortened(),
		Lines: []string{"Members and leaders are spread evenly over the nodes.", "Members that move copy the messages of their queues.", "Now " + strings.Join(now, ", ") + "."},
	}
	if b.Total == 0 {
		q.Lines = append(q.Lines, "Nothing would change.")
	}
	return q, err
}

func rebalanceQueues(v *visit) (outcome, error) {
	b, err := v.begin(http.MethodPost, nil, false, "/api/rebalance/queues")
	return b.outcome("The rebalance has begun."), err
}
