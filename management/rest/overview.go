package rest

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/broker/queues"
	"github.com/quorate/quorate/management/stats"
)

// overviewRoutes show the cluster and its nodes in figures.
func overviewRoutes() []route {
	return []route{
		{method: "GET", path: "/api/overview", tag: management, serve: overview, query: oneQuery(withoutFigures()), says: "the cluster in figures: objects, messages in queues, and for monitoring what its nodes have counted"},
		{method: "GET", path: "/api/nodes", tag: monitoring, always: true, serve: listNodes, query: listQuery(withoutFigures()), says: "the nodes as this one sees them, with what each says of itself"},
		{method: "GET", path: "/api/nodes/{name}", tag: monitoring, always: true, serve: getNode, query: oneQuery(withoutFigures()), says: "one node"},
		{method: "GET", path: "/api/nodes/{name}/memory", tag: monitoring, always: true, serve: getNodeMemory, query: oneQuery(), says: "what the memory of a node is for"},
	}
}

// ratesMode is RabbitMQ's word for rates of everything but channels.
const ratesMode = "basic"

// overview counts what the caller may see (VH-12).
func overview(c *call) (reply, error) {
	b, ctx := c.api.Broker, c.Context()
	queues, err := b.Queues.List(ctx, "", c.figures())
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
	out := object{
		"product_name": "Quorate", "product_version": c.api.Version, "management_version": c.api.Version, "rabbitmq_version": c.api.Version,
		"cluster_name": c.api.Cluster, "node": c.api.Node, "rates_mode": ratesMode,
		"object_totals": object{
			"connections": len(connections), "channels": channels, "queues": queues.Len(), "exchanges": exchanges,
		},
		"listeners": c.listeners(), "contexts": []object{}, "exchange_types": exchangeTypes(),
	}
	if c.figures() {
		err = c.addFigures(out, queues)
	}
	return reply{body: out, silent: together(silent, queues.Silent)}, err
}

// addFigures adds to an overview what costs a look at queues and nodes.
func (c *call) addFigures(out object, queues *queues.List) error {
	ready, unsettled, others, consumers := queues.Totals()
	totals, err := c.queueTotals(ready, unsettled, others)
	if err != nil {
		return err
	}
	out["queue_totals"] = totals
	if in, is := out["object_totals"].(object); is {
		in["consumers"] = consumers
	}
	if c.api.Broker.Logins.Require(c.Context(), monitoring) == nil {
		return c.addCounts(out)
	}
	return nil
}

// addCounts adds to an overview what nodes and queues have counted.
func (c *call) addCounts(out object) error {
	sample, err := c.api.Stats.Cluster(c.Context())
	if err != nil {
		return err
	}
	newest, err := c.api.Stats.Queues(c.Context())
	if err != nil {
		return err
	}
	out["message_stats"], out["churn_rates"] = counted(sample, newest.Counts()), churn(sample)
	return nil
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
	return c.list(of(status.Nodes, func(n *operators.NodeStatus) string { return n.ID }, c.nodeRow()), silentIn(&status))
}

func getNode(c *call) (reply, error) {
	n, silent, err := c.findNode()
	if err != nil {
		return reply{}, err
	}
	return reply{body: c.nodeRow()(n), silent: silent}, nil
}

// findNode asks all nodes for their state, and returns that of the path's, and which did not answer.
func (c *call) findNode() (n *operators.NodeStatus, silent []string, err error) {
	status, err := c.api.Broker.Operators.ClusterStatus(c.Context(), true)
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(status.Nodes, func(n operators.NodeStatus) bool { return n.ID == c.name() })
	if i < 0 {
		return nil, nil, missing("node", "", c.name())
	}
	return &status.Nodes[i], silentIn(&status), nil
}

// nodeRow returns what shows a node as the caller wants it. That rates cannot be had hides no node.
func (c *call) nodeRow() func(n *operators.NodeStatus) object {
	if !c.figures() {
		return ofNode
	}
	sample, err := c.api.Stats.Cluster(c.Context())
	if err != nil {
		sample = nil
	}
	return func(n *operators.NodeStatus) object { return ofNode(n).withUse(n).withUseRates(sample.UseOf(n.ID)) }
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
		out["disk_free_limit"], out["disk_free_alarm"], out["disk_pressure"] = d.Low, d.Pressure != "none", d.Pressure
	}
	if v := n.Vitals; v != nil {
		out["mem_limit"], out["mem_alarm"] = v.MemoryHigh, v.MemoryHigh > 0 && v.Memory > v.MemoryHigh
		out["processors"] = v.Processors
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
		out["clock_off"] = k.Off
	}
	return out
}

// withUse adds the figures of a node.
func (o object) withUse(n *operators.NodeStatus) object {
	if d := n.Disk; d != nil {
		o["disk_free"], o["disk_hangs_ms"] = d.Free, d.Hangs.Milliseconds()
	}
	if v := n.Vitals; v != nil {
		o["mem_used"], o["fd_used"], o["fd_total"] = v.Memory, v.Files, min(v.FilesLimit, noLimit)
		o["proc_used"], o["proc_total"], o["run_queue"], o["uptime"] = v.Goroutines, noLimit, v.Runnable, v.Uptime.Milliseconds()
	}
	if k := n.Clock; k != nil {
		o["clock_offset_us"] = k.Offset.Microseconds()
	}
	return o
}

// withUseRates adds how fast the figures of a node that are there become more.
func (o object) withUseRates(u stats.Use) object {
	for field, rate := range map[string]float64{"mem_used": u.Memory, "fd_used": u.Files, "disk_free": u.DiskFree} {
		if _, is := o[field]; is {
			o[field+"_details"] = object{"rate": rate}
		}
	}
	return o
}

// reasons are the sentences of alarms.
func reasons(all []operators.Alarm) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].Reason
	}
	return out
}
