package rest

import (
	"regexp"
	"slices"

	"github.com/quorate/quorate/broker"
)

// maxShownQueues bounds the queues that the answer of a check names.
const maxShownQueues = 100

// queueHealthRoutes are the checks that look at all queues. They name queues of all vhosts, so they
// need the tag monitoring.
func queueHealthRoutes(checks string) []route {
	const leaders = "quorum-queues-without-elected-leaders/"
	check := func(path string, serve func(*call) (reply, error), says string) route {
		return route{method: "GET", path: checks + path, tag: monitoring, serve: serve, says: says}
	}
	routes := []route{check("node-is-quorum-critical", checkCritical, "no queue would stand still without this node")}
	for _, end := range []string{"", "/{$}", "/pattern/{pattern}"} {
		routes = append(routes,
			check(leaders+"all-vhosts"+end, checkLeaders, "all queues, or those whose names match a regular expression, have a leader"),
			check(leaders+"vhost/{vhost}"+end, checkLeaders, "all queues of a vhost, or those whose names match a regular expression, have a leader"),
		)
	}
	return routes
}

// findQueues answers unwell with the queues of a vhost, or of all for "", that are at fault.
func (c *call) findQueues(vhost, reason string, fault func(q *broker.Queue) bool) (reply, error) {
	found, shown := 0, []object{}
	for token := ""; ; {
		page, next, err := c.api.Broker.ListQueues(c.Context(), vhost, broker.MaxPageSize, token, true)
		if err != nil {
			return reply{}, err
		}
		for i := range page {
			q := &page[i]
			if !fault(q) {
				continue
			}
			if found++; len(shown) < maxShownQueues {
				shown = append(shown, object{"name": q.Name, "virtual_host": q.VHost, "type": q.Type, "state": q.State, "members": q.Members, "online": q.Online})
			}
		}
		if token = next; next == "" {
			break
		}
	}
	if found > 0 {
		return unwell(reason, object{"queues": shown, "total": found})
	}
	return well()
}

// checkCritical does not count queues that stand still already: this node's stop costs them
// nothing.
func checkCritical(c *call) (reply, error) {
	s, err := c.api.Broker.Operators.ClusterStatus(c.Context(), false)
	if err != nil {
		return reply{}, err
	}
	if len(s.Nodes) == 1 {
		return reply{body: object{"status": "ok", "reason": "the cluster has a single node"}}, nil
	}
	return c.findQueues("", "queues would stand still without this node", func(q *broker.Queue) bool {
		return len(q.Online) == len(q.Members)/2+1 && slices.Contains(q.Online, c.api.Node)
	})
}

// checkLeaders may find a queue that elects a leader at this moment; a probe should ask again.
func checkLeaders(c *call) (reply, error) {
	pattern, err := regexp.Compile(c.PathValue("pattern")) // linear in time, whatever the pattern
	if err != nil {
		return reply{}, bad("pattern", c.PathValue("pattern"), "is no regular expression: "+err.Error())
	}
	return c.findQueues(c.vhost(), "there are queues without a leader", func(q *broker.Queue) bool {
		return pattern.MatchString(q.Name) && q.Leader == ""
	})
}
