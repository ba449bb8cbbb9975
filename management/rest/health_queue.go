package rest

import (
	"regexp"
	"strings"

	"github.com/quorate/quorate/broker/queues"
	"github.com/quorate/quorate/internal/majority"
)

// maxShownQueues bounds the queues that the answer of a check names.
const maxShownQueues = 100

// queueHealthRoutes are the checks of all queues. They name queues of all vhosts, so they need the tag monitoring.
func queueHealthRoutes(checks string) []route {
	const leaders = "quorum-queues-without-elected-leaders/"
	check := func(path string, serve func(*call) (reply, error), says string) route {
		return route{method: "GET", path: checks + path, tag: monitoring, serve: serve, says: says}
	}
	routes := []route{check("node-is-quorum-critical", checkCritical, "no queue stands still, or would without this node, and no other node builds members anew")}
	for _, end := range []string{"", "/{$}", "/pattern/{pattern}"} {
		routes = append(routes,
			check(leaders+"all-vhosts"+end, checkLeaders, "all queues, or those whose names match a regular expression, have a leader"),
			check(leaders+"vhost/{vhost}"+end, checkLeaders, "all queues of a vhost, or those whose names match a regular expression, have a leader"),
		)
	}
	return routes
}

// findQueues returns the queues of a vhost, or of all for "", that are at fault: how many, and the first maxShownQueues.
func (c *call) findQueues(vhost string, fault func(q *queues.Queue) bool) (found int, shown []object, err error) {
	shown = []object{}
	for token := ""; ; {
		page, next, err := c.api.Broker.Queues.Page(c.Context(), vhost, queues.MaxPageSize, token, true)
		if err != nil {
			return 0, nil, err
		}
		for i := range page {
			q := &page[i]
			if !fault(q) {
				continue
			}
			if found++; len(shown) < maxShownQueues {
				shown = append(shown, object{
					"name": q.Name, "virtual_host": q.VHost, "readable_name": "queue '" + q.Name + "' in vhost '" + q.VHost + "'",
					"type": q.Type, "state": q.State, "members": q.Members, "online": q.Online,
				})
			}
		}
		if token = next; next == "" {
			return found, shown, nil
		}
	}
}

// checkCritical judges as quoratectl check quorum-critical does for this node. It asks all nodes for members that are
// not rebuilt yet, or whose node does not report that: the list of queues shows the latter as online.
func checkCritical(c *call) (reply, error) {
	s, err := c.api.Broker.Operators.ClusterStatus(c.Context(), true)
	if err != nil {
		return reply{}, err
	}
	if len(s.Nodes) == 1 {
		return reply{body: object{"status": "ok", "reason": "the cluster has a single node"}}, nil
	}
	nodes, reasons := []object{}, []string{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		of := majority.Node{Name: n.ID, Connected: n.Connected, Answers: n.Answers, Lost: uint64(n.Lost)}
		if f, is := majority.OfNode(of, c.api.Node); is {
			nodes = append(nodes, object{"node": n.ID, "answers": n.Answers, "lost_members": n.Lost})
			reasons = append(reasons, "node "+n.ID+": "+f.Problem)
		}
	}
	found, shown, err := c.findQueues("", func(q *queues.Queue) bool {
		_, is := majority.OfQueue(q.Members, q.Online, c.api.Node)
		return is
	})
	if err != nil {
		return reply{}, err
	}
	silent := silentIn(&s)
	if found > 0 {
		reasons = append([]string{"queues stand still, or would without this node"}, reasons...)
	}
	out, err := well()
	if len(reasons) > 0 {
		out, err = unwell(strings.Join(reasons, "; "), object{"queues": shown, "total": found, "nodes": nodes})
	}
	out.silent = silent
	return out, err
}

// checkLeaders may find a queue that elects a leader at this moment; a probe should ask again.
func checkLeaders(c *call) (reply, error) {
	pattern, err := regexp.Compile(c.PathValue("pattern")) // linear in time, whatever the pattern
	if err != nil {
		return reply{}, bad("pattern", c.PathValue("pattern"), "is no regular expression: "+err.Error())
	}
	found, shown, err := c.findQueues(c.vhost(), func(q *queues.Queue) bool { return pattern.MatchString(q.Name) && q.Leader == "" })
	switch {
	case err != nil:
		return reply{}, err
	case found > 0:
		return unwell("there are queues without a leader", object{"queues": shown, "total": found})
	}
	return well()
}
