package rest

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/management/stats"
)

// overviewRoutes show the cluster and its nodes in figures.
func overviewRoutes() []route {
	return []route{
		{method: "GET", path: "/api/overview", tag: management, serve: overview, says: "the cluster in figures: objects, messages in queues, and for monitoring what its nodes have counted"},
		{method: "GET", path: "/api/nodes", tag: monitoring, always: true, serve: listNodes, query: listQuery(), says: "the nodes as this one sees them, with what each says of itself"},
		{method: "GET", path: "/api/nodes/{name}", tag: monitoring, always: true, serve: getNode, says: "one node"},
		{method: "GET", path: "/api/nodes/{name}/memory", tag: monitoring, always: true, serve: getNodeMemory, says: "what the memory of a node is for"},
	}
}

// ratesMode is RabbitMQ's word for rates of everything but channels.
const ratesMode = "basic"

// overview counts what the caller may see (VH-12).
func overview(c *call) (reply, error) {
	b, ctx := c.api.Broker, c.Context()
	queues, err := b.Queues.List(ctx, "", true)
	if err != nil {
		return reply{}, err
	}
	exchanges := 0
	if err := c.eachVHost(func(vhost string) error {
		all, err := b.ListExchanges(ctx, vhost)
		exchanges += len(all)
		return err
	}); err != nil {
		return reply{}, err
	}
	connections, silent, err := b.Connections.ClientConnections(ctx, "", "")
	if err != nil {
		return reply{}, err
	}
	channels := 0
	for i := range connections {
		channels += connections[i].Channels
	}
	ready, unsettled, others, consumers := queues.Totals()
	silent = append(silent, queues.Silent...)
	slices.Sort(silent)
	totals, err := c.queueTotals(ready, unsettled, others)
	if err != nil {
		return reply{}, err
	}
	out := object{
		"product_name": "Quorate", "product_version": c.api.Version, "management_version": c.api.Version, "rabbitmq_version": c.api.Version,
		"cluster_name": c.api.Cluster, "node": c.api.Node, "rates_mode": ratesMode,
		"object_totals": object{
			"connections": len(connections), "channels": channels, "consumers": consumers, "queues": queues.Len(), "exchanges": exchanges,
		},
		"queue_totals": totals, "listeners": c.listeners(), "contexts": []object{}, "exchange_types": exchangeTypes(),
	}
	if b.Logins.Require(ctx, monitoring) == nil {
		sample, err := c.api.Stats.Cluster(ctx)
		if err != nil {
			return reply{}, err
		}
		newest, err := c.api.Stats.Queues(ctx)
		if err != nil {
			return reply{}, err
		}
		out["message_stats"], out["churn_rates"] = counted(sample, newest.Counts()), churn(sample)
	}
	return reply{body: out, silent: slices.Compact(silent)}, nil
}

// allAddresses is RabbitMQ's address of a listener on all addresses of a machine.
const allAddresses = "::"

// listeners are the open ports of this node, as far as it knows them.
func (c *call) listeners() []object {
	out := []object{}
	if c.api.Facts.Listeners == nil {
		return out
	}
	for _, l := range c.api.Facts.Listeners() {
		out = append(out, object{"node": c.api.Node, "protocol": l.Protocol, "ip_address": cmp.Or(l.Address, allAddresses), "port": l.Port})
	}
	return out
}

// exchangeTypes are those that can be declared.
func exchangeTypes() []object {
	all := broker.ExchangeTypes()
	out := make([]object, 0, len(all))
	for _, x := range all {
		out = append(out, object{"name": x.Name, "description": "routes " + x.Routes, "enabled": true})
	}
	return out
}

// queueTotals shows how many messages the queues have that the caller may see, and how fast they become more.
func (c *call) queueTotals(ready, unsettled, others uint64) (object, error) {
	newest, err := c.api.Stats.Queues(c.Context())
	if err != nil {
		return nil, err
	}
	all, err := c.api.Broker.Administration.ListVHosts(c.Context())
	if err != nil {
		return nil, err
	}
	var growth stats.Growth
	for i := range all {
		growth = growth.Plus(newest.VHost(all[i].Name).Growth)
	}
	out := object{"messages": ready + unsettled + others, "messages_ready": ready, "messages_unacknowledged": unsettled}
	return out.withGrowth(&growth), nil
}

// counted shows what the nodes have counted since their starts, and the queues since they were declared, with rates.
func counted(s *stats.Cluster, queues stats.Counts) object {
	out, r := object{"ack": queues.Ack, "redeliver": queues.Redeliver}, &s.Rates
	given := uint64(0)
	for _, x := range []struct {
		field, counter string
		given          bool // a message that a client was given
		rate           float64
	}{
		{"publish", "published", false, r.Publish},
		{"confirm", "confirmed", false, r.Confirm},
		{"return_unroutable", "unroutable_returned", false, r.Returned},
		{"drop_unroutable", "unroutable_dropped", false, r.Dropped},
		{"deliver", "consumed", true, r.Consumed},
		{"deliver_no_ack", "consumed_auto_ack", true, r.ConsumedAutoAck},
		{"get", "got", true, r.Got},
		{"get_no_ack", "got_auto_ack", true, r.GotAutoAck},
	} {
		sum := s.Sum(x.counter)
		out[x.field], out[x.field+"_details"] = sum, object{"rate": x.rate}
		if x.given {
			given += sum
		}
	}
	out["deliver_get"] = given
	for field, rate := range map[string]float64{"deliver_get": r.Deliver, "redeliver": r.Redeliver, "ack": r.Ack} {
		out[field+"_details"] = object{"rate": rate}
	}
	return out
}

// churn shows how clients and queues come and go on all nodes, which count since their starts, with rates.
func churn(s *stats.Cluster) object {
	out := object{}
	for field, counter := range map[string]string{
		"connection_created": "connections_opened", "connection_closed": "connections_closed",
		"channel_created": "channels_opened", "channel_closed": "channels_closed",
		"queue_declared": "queues_declared", "queue_created": "queues_created", "queue_deleted": "queues_deleted",
	} {
		out[field], out[field+"_details"] = s.Sum(counter), object{"rate": s.Churn[counter]}
	}
	return out
}

func listNodes(c *call) (reply, error) {
	status, err := c.api.Broker.Operators.ClusterStatus(c.Context(), true)
	if err != nil {
		return reply{}, err
	}
	return c.list(of(status.Nodes, func(n *operators.NodeStatus) string { return n.ID }, ofNode), nil)
}

func getNode(c *call) (reply, error) {
	n, err := c.findNode()
	if err != nil {
		return reply{}, err
	}
	return reply{body: ofNode(n)}, nil
}

// findNode asks all nodes for their state, and returns that of the path's.
func (c *call) findNode() (*operators.NodeStatus, error) {
	status, err := c.api.Broker.Operators.ClusterStatus(c.Context(), true)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(status.Nodes, func(n operators.NodeStatus) bool { return n.ID == c.name() })
	if i < 0 {
		return nil, missing("node", "", c.name())
	}
	return &status.Nodes[i], nil
}

// noLimit stands for a number without a limit: tools take no larger one.
const noLimit = math.MaxInt32

// ofNode shows a node under the names of RabbitMQ's HTTP API, as far as they mean something here. What a node has not
// reported is left out, as in RabbitMQ.
func ofNode(n *operators.NodeStatus) object {
	out := object{
		"name": n.ID, "type": "disc", "running": n.Answers && n.Refused == "", "being_drained": n.Draining,
		"partitions": []string{}, "mem_alarm": false, "disk_free_alarm": false, "client_address": n.ClientAddress,
		"version": n.Version, "rabbitmq_version": n.Version, "rates_mode": ratesMode, "enabled_plugins": []string{}, "applications": []object{},
		"quorum_queues": n.Replicas, "quorum_queue_leaders": n.Leaders, "alarms": reasons(n.Alarms()),
	}
	if n.Answers {
		out["start"] = object{"phase": string(n.Start.Phase), "done": n.Start.Done, "total": n.Start.Total, "unit": n.Start.Unit}
	}
	if n.Refused != "" {
		out["refused"] = n.Refused
	}
	if d := n.Disk; d != nil {
		out["disk_free"], out["disk_free_limit"], out["disk_free_alarm"] = d.Free, d.Low, d.Pressure != "none"
		out["disk_pressure"], out["disk_hangs_ms"] = d.Pressure, d.Hangs.Milliseconds()
	}
	if v := n.Vitals; v != nil {
		out["mem_used"], out["mem_limit"], out["mem_alarm"] = v.Memory, v.MemoryHigh, v.MemoryHigh > 0 && v.Memory > v.MemoryHigh
		out["fd_used"], out["fd_total"] = v.Files, min(v.FilesLimit, noLimit)
		out["proc_used"], out["proc_total"], out["run_queue"] = v.Goroutines, noLimit, v.Runnable
		out["uptime"], out["processors"] = v.Uptime.Milliseconds(), v.Processors
		for field, x := range map[string]*float64{"cpu": v.CPU, "confirm_p99_ms": milliseconds(v.ConfirmP99), "fsync_p99_ms": milliseconds(v.SyncP99)} {
			if x != nil {
				out[field] = hundredths(*x)
			}
		}
		if v.Process > 0 {
			out["os_pid"] = strconv.FormatUint(uint64(v.Process), 10)
		}
	}
	if k := n.Clock; k != nil {
		out["clock_offset_us"], out["clock_off"] = k.Offset.Microseconds(), k.Off
	}
	return out
}

// reasons are the sentences of alarms.
func reasons(all []operators.Alarm) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].Reason
	}
	return out
}
