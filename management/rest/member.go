package rest

import (
	"regexp/syntax"
	"strings"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/operators"
)

// memberRoutes are about the members of queues. Those that change some begin operations, which
// outlast the request.
func memberRoutes() []route {
	return []route{
		{method: "GET", path: "/api/queues/quorum/{vhost}/{name}/status", tag: management, serve: listMembers, query: listQuery(), says: "each member of a queue as it sees itself"},
		{method: "POST", path: "/api/queues/quorum/{vhost}/{name}/replicas/add", tag: administrator, act: changesMembers(audit.OpMemberAdd), serve: addMember, says: "makes a node a member of a queue, as an operation; body: node"},
		{method: "DELETE", path: "/api/queues/quorum/{vhost}/{name}/replicas/delete", tag: administrator, act: changesMembers(audit.OpMemberRemove), serve: removeMember, query: dryRunQuery(), says: "takes a node out of a queue, as an operation; body: node"},
		{method: "POST", path: "/v1/queues/{vhost}/{name}/leader", tag: administrator, act: changesMembers(audit.OpLeaderTransfer), serve: transferLeader, says: "moves the leadership of a queue to another of its members; body: node, the leader chooses if it is left out"},
		{method: "POST", path: "/api/queues/quorum/replicas/on/{name}/grow", tag: administrator, act: changesNode(audit.OpQueuesGrow), serve: growQueues, query: dryRunQuery(), says: "makes a node a member of queues, as an operation; body: strategy (all or even), vhost_pattern, queue_pattern"},
		{method: "DELETE", path: "/api/queues/quorum/replicas/on/{name}/shrink", tag: administrator, act: changesNode(audit.OpQueuesShrink), serve: shrinkNode, query: dryRunQuery(), says: "takes a node out of all queues, as an operation"},
		{method: "POST", path: "/api/rebalance/queues", tag: administrator, act: rebalances, serve: rebalanceQueues, query: dryRunQuery(), says: "spreads members and leaders over the nodes, as an operation"},
	}
}

// changesMembers describes a change of the members of the path's queue.
func changesMembers(op audit.Operation) func(c *call) audit.Act {
	return func(c *call) audit.Act {
		return audit.Act{Operation: op, VHost: c.vhost(), Kind: "queue", Name: c.name()}
	}
}

// ofMember gives a member the names of RabbitMQ's status of a queue. A node that did not answer has
// no figures.
func ofMember(m *operators.QueueMember) object {
	if m.State == "" {
		return object{"Node Name": m.Node, "Raft State": "unknown", "Trouble": m.Trouble}
	}
	out := object{
		"Node Name": m.Node, "Raft State": m.State, "Membership": "voter", "Last Log Index": m.LastIndex, "Last Applied": m.AppliedIndex,
		"Commit Index": m.CommitIndex, "Snapshot Index": m.SnapshotIndex, "Term": m.Term,
	}
	if m.Trouble != "" {
		out["Trouble"] = m.Trouble
	}
	return out
}

// listMembers asks every member, as each knows its own log alone. It is for those who see the vhost (VH-12).
func listMembers(c *call) (reply, error) {
	if _, err := c.visibleVHost(); err != nil {
		return reply{}, err
	}
	all, err := c.api.Broker.Operators.QueueMembers(c.Context(), c.vhost(), c.name(), false)
	if err != nil {
		return reply{}, err
	}
	var silent []string
	for i := range all {
		if all[i].State == "" {
			silent = append(silent, all[i].Node)
		}
	}
	return c.list(of(all, func(m *operators.QueueMember) string { return m.Node }, ofMember), silent)
}

// nodeOfBody reads the node that a member is added on or removed from.
func (c *call) nodeOfBody() (string, error) {
	f, err := c.object()
	if err != nil {
		return "", err
	}
	node, err := f.need("node")
	if err == nil && node == "" {
		err = bad("node", "", "is empty; name a node of the cluster")
	}
	return node, err
}

// addMember answers before the member has the queue's messages; the operation says when it has.
func addMember(c *call) (reply, error) {
	node, err := c.nodeOfBody()
	if err != nil {
		return reply{}, err
	}
	return begun(c.api.Broker.Operators.ChangeMember(c.Context(), operators.ChangeMember{VHost: c.vhost(), Queue: c.name(), To: node}))
}

// removeMember deletes the node's copy of the messages in the end, so it offers a dry run.
func removeMember(c *call) (reply, error) {
	node, err := c.nodeOfBody()
	if err != nil {
		return reply{}, err
	}
	return begun(c.api.Broker.Operators.ChangeMember(c.Context(), operators.ChangeMember{
		VHost: c.vhost(), Queue: c.name(), From: node, DryRun: c.flag("dry_run"),
	}))
}

// transferLeader answers when the leader has handed over.
func transferLeader(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	node, err := f.text("node", "")
	if err != nil {
		return reply{}, err
	}
	return reply{}, c.api.Broker.Operators.TransferLeadership(c.Context(), c.vhost(), c.name(), node)
}

// growQueues takes RabbitMQ's body.
func growQueues(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	g := operators.Grow{Node: c.name(), DryRun: c.flag("dry_run")}
	switch strategy, err := f.text("strategy", "all"); {
	case err != nil:
		return reply{}, err
	case strategy != "all" && strategy != "even":
		return reply{}, bad("strategy", strategy, "want all or even")
	default:
		g.EvenOnly = strategy == "even"
	}
	if g.Queues.VHost, err = f.oneOrAll("vhost_pattern"); err != nil {
		return reply{}, err
	}
	if g.Queues.Pattern, err = f.oneOrAll("queue_pattern"); err != nil {
		return reply{}, err
	}
	return begun(c.api.Broker.Operators.Grow(c.Context(), g))
}

// oneOrAll reads a regular expression that names one thing, or all of them, for which it returns
// "". Operations choose queues by patterns of another kind, so other expressions are refused.
func (f fields) oneOrAll(name string) (string, error) {
	pattern, err := f.text(name, "")
	if err != nil || pattern == "" || pattern == ".*" || pattern == "^.*$" {
		return "", err
	}
	x, err := syntax.Parse(pattern, syntax.Perl)
	if err == nil && x.Op == syntax.OpConcat && len(x.Sub) == 3 {
		begin, one, end := x.Sub[0], x.Sub[1], x.Sub[2]
		if begin.Op == syntax.OpBeginText && one.Op == syntax.OpLiteral && one.Flags&syntax.FoldCase == 0 && end.Op == syntax.OpEndText &&
			!strings.ContainsAny(string(one.Rune), `*?[\`) { // special in the patterns of operations
			return string(one.Rune), nil
		}
	}
	return "", bad(name, pattern, "want .* for all, or ^NAME$ for one, with \\ in front of special characters; other expressions are not understood here")
}

func shrinkNode(c *call) (reply, error) {
	return begun(c.api.Broker.Operators.Shrink(c.Context(), operators.Shrink{Node: c.name(), DryRun: c.flag("dry_run")}))
}

func rebalances(*call) audit.Act {
	return audit.Act{Operation: audit.OpQueuesRebalance, Kind: "queues"}
}

// rebalanceQueues takes all queues, as RabbitMQ's path has no way to choose some.
func rebalanceQueues(c *call) (reply, error) {
	return begun(c.api.Broker.Operators.Rebalance(c.Context(), operators.Rebalance{DryRun: c.flag("dry_run")}))
}
