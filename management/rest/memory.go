package rest

import (
	"slices"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/management/stats"
)

// getNodeMemory answers for any node that answers. The figures are at most a second old: all that look share them.
func getNodeMemory(c *call) (reply, error) {
	sample, err := c.api.Stats.Cluster(c.Context())
	if err != nil {
		return reply{}, err
	}
	i := slices.IndexFunc(sample.Nodes, func(n stats.Node) bool { return n.ID == c.name() })
	if i < 0 {
		return reply{}, missing("node", "", c.name())
	}
	n := &sample.Nodes[i]
	if n.Vitals == nil || n.Vitals.Parts == nil {
		return reply{}, &failure.Error{Class: failure.Unavailable, Kind: "node", Name: n.ID, Reason: "does not say what its memory is for"}
	}
	return reply{body: object{"memory": ofMemory(n.Vitals.Parts)}, silent: sample.Silent}, nil
}

// ofMemory sorts a node's memory into the kinds that RabbitMQ's HTTP API has. Tools want all of them: those without a
// counterpart are 0.
func ofMemory(m *operators.Memory) object {
	out := object{"strategy": "rss", "total": object{"rss": m.Resident, "allocated": m.Kept(), "erlang": m.Kept()}}
	for _, kind := range []string{
		"connection_readers", "connection_writers", "connection_channels", "connection_other", "queue_procs", "quorum_queue_procs",
		"quorum_queue_dlx_procs", "stream_queue_procs", "stream_queue_replica_reader_procs", "stream_queue_coordinator_procs", "plugins",
		"metadata_store", "metrics", "mgmt_db", "mnesia", "metadata_store_ets", "other_ets", "msg_index", "atom", "reserved_unallocated",
	} {
		out[kind] = 0
	}
	out["binary"], out["quorum_ets"], out["other_proc"] = m.Bodies, m.Tail, m.Heap-min(m.Heap, m.Bodies+m.Tail)
	out["other_system"], out["allocated_unused"] = m.Stacks+m.Runtime, m.Unused
	out["code"] = m.Resident - min(m.Resident, m.Kept())
	return out
}
