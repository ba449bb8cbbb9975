package rest

import (
	"slices"

	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/management/stats"
)

// overviewRoutes show the cluster and its nodes in figures.
func overviewRoutes() []route {
	return []route{
		{method: "GET", path: "/api/overview", tag: management, serve: overview, says: "the cluster in figures: objects, messages in queues, and for monitoring what its nodes have counted"},
		{method: "GET", path: "/api/nodes", tag: monitoring, always: true, serve: listNodes, query: listQuery(), says: "the nodes as this one sees them, with what each says of itself"},
		{method: "GET", path: "/api/nodes/{name}", tag: monitoring, always: true, serve: getNode, says: "one node"},
	}
}

// overview counts what the caller may see (VH-12).
func overview(c *call) (reply, error) {
	b, ctx := c.api.Broker, c.Context()
	queues, err := b.Queues(ctx, "", true)
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
	out := object{
		"product_name": "Quorate", "product_version": c.api.Version, "management_version": c.api.Version, "rabbitmq_version": c.api.Version,
		"cluster_name": c.api.Cluster, "node": c.api.Node, "rates_mode": "basic",
		"object_totals": object{
			"connections": len(connections), "channels": channels, "consumers": consumers, "queues": queues.Len(), "exchanges": exchanges,
		},
		"queue_totals": object{"messages": ready + unsettled + others, "messages_ready": ready, "messages_unacknowledged": unsettled},
		"listeners":    c.listeners(), "contexts": []object{}, "exchange_types": exchangeTypes(),
	}
	if b.Logins.Require(ctx, monitoring) == nil {
		sample, err := c.api.Stats.Cluster(ctx)
		if err != nil {
			return reply{}, err
		}
		out["message_stats"] = counted(sample.Nodes)
		addRates(out, &sample.Rates)
	}
	return reply{body: out, silent: slices.Compact(silent)}, nil
}

// listeners are the open ports of this node, as far as it knows them.
func (c *call) listeners() []object {
	out := []object{}
	if c.api.Facts.Listeners == nil {
		return out
	}
	for _, l := range c.api.Facts.Listeners() {
		out = append(out, object{"node": c.api.Node, "protocol": l.Protocol, "port": l.Port})
	}
	return out
}

// exchangeTypes are those that can be declared.
func exchangeTypes() []object {
	out := make([]object, 0, 4)
	for _, name := range []string{"direct", "fanout", "headers", "topic"} {
		out = append(out, object{"name": name, "enabled": true})
	}
	return out
}

// counted adds up what the nodes have counted since their starts.
func counted(nodes []stats.Node) object {
	out := object{}
	for field, counter := range map[string]string{
		"publish": "published", "confirm": "confirmed", "return_unroutable": "unroutable_returned", "drop_unroutable": "unroutable_dropped",
	} {
		sum := uint64(0)
		for i := range nodes {
			sum += nodes[i].Counters[counter]
		}
		out[field] = sum
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
	status, err := c.api.Broker.Operators.ClusterStatus(c.Context(), true)
	if err != nil {
		return reply{}, err
	}
	i := slices.IndexFunc(status.Nodes, func(n operators.NodeStatus) bool { return n.ID == c.name() })
	if i < 0 {
		return reply{}, missing("node", "", c.name())
	}
	return reply{body: ofNode(&status.Nodes[i])}, nil
}

// ofNode gives a node the names that RabbitMQ's HTTP API has, as far as they mean something here.
func ofNode(n *operators.NodeStatus) object {
	out := object{
		"name": n.ID, "type": "disc", "running": n.Answers && n.Refused == "", "being_drained": n.Draining,
		"partitions": []string{}, "mem_alarm": false, "disk_free_alarm": false, "version": n.Version, "client_address": n.ClientAddress,
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
		out["fd_used"], out["fd_total"], out["proc_used"], out["run_queue"] = v.Files, v.FilesLimit, v.Goroutines, v.Runnable
		out["uptime"], out["processors"] = v.Uptime.Milliseconds(), v.Processors
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
