package grpcapi

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/management/stats"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

const (
	// defaultTopQueues is how many queues a sample has if the caller names no number.
	defaultTopQueues = 50
	// MaxTopQueues is how many it has at most.
	MaxTopQueues = 1000
)

// figuresServer serves Figures. All streams share the collector's samples.
type figuresServer struct {
	brokerv1.UnimplementedFiguresServer
	node  string
	stats *stats.Collector
}

// WatchCluster sends samples until the caller ends the stream. A caller that reads slowly misses samples.
func (s *figuresServer) WatchCluster(req *brokerv1.WatchClusterRequest, stream grpc.ServerStreamingServer[brokerv1.WatchClusterResponse]) error {
	ctx, cancel := living(stream.Context())
	defer cancel()
	by := stats.ByRate
	if req.GetSort() != "" {
		by = stats.Order(req.GetSort())
	}
	if !slices.Contains(stats.Orders(), by) {
		return invalid("cluster", "sort", req.GetSort(), fmt.Sprintf("want one of %v", stats.Orders()))
	}
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = defaultTopQueues
	}
	err := s.stats.Watch(ctx, func(c *stats.Cluster) error {
		out := s.sample(c)
		queues, err := s.stats.Queues(ctx)
		if err != nil { // the sample has an alarm about it
			return stream.Send(out)
		}
		top, matching := queues.Top(by, req.GetFilter(), min(limit, MaxTopQueues))
		out.Matching, out.RatesOverMs = uint64(matching), uint64(queues.Over.Milliseconds())
		for _, q := range top {
			out.Queues = append(out.Queues, toQueueFigures(q))
		}
		return stream.Send(out)
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// sample translates a sample without its queues.
func (s *figuresServer) sample(c *stats.Cluster) *brokerv1.WatchClusterResponse {
	t := &c.Totals
	out := &brokerv1.WatchClusterResponse{
		AtMs: c.At.UnixMilli(), Cluster: c.Name, Node: s.node, Rates: toRates(&c.Rates), Silent: c.Silent, Alarms: c.Alarms,
		Totals: &brokerv1.ClusterTotals{
			Queues: uint64(t.Queues), Ready: t.Ready, Unacked: t.Unsettled, Delayed: t.Delayed, DeadLetters: t.Backlog, Bytes: t.Bytes,
			Consumers: uint64(t.Consumers), Connections: uint64(c.Objects.Connections),
		},
	}
	for i := range c.Nodes {
		out.Nodes = append(out.Nodes, toNodeFigures(&c.Nodes[i]))
	}
	return out
}

// toNodeFigures leaves out what is not known of a node.
func toNodeFigures(n *stats.Node) *brokerv1.NodeFigures {
	out := &brokerv1.NodeFigures{
		Id: n.ID, Answers: n.Answers, Draining: n.Draining, Version: n.Version, Leads: uint64(n.Totals.Queues), Ready: n.Totals.Ready,
		Rates: toRates(&n.Rates), Connections: uint64(n.Connections),
	}
	if d := n.Disk; d != nil {
		out.DiskFreeBytes = &d.Free
	}
	if v := n.Vitals; v != nil {
		out.Cpu, out.Processors, out.MemoryBytes, out.MemoryHighBytes = v.CPU, uint32(v.Processors), &v.Memory, v.MemoryHigh
		if v.ConfirmP99 != nil {
			out.ConfirmP99Us = new(uint64(v.ConfirmP99.Microseconds()))
		}
		if v.SyncP99 != nil {
			out.SyncP99Us = new(uint64(v.SyncP99.Microseconds()))
		}
	}
	return out
}

// toQueueFigures translates a queue.
func toQueueFigures(q *stats.Queue) *brokerv1.QueueFigures {
	s := q.Stats
	return &brokerv1.QueueFigures{
		Vhost: q.VHost, Name: q.Name, Leader: q.Leader, Ready: s.Ready, Unacked: s.Unsettled, Delayed: s.Delayed, DeadLetters: s.Backlog,
		Bytes: s.ReadyBytes + s.UnsettledBytes + s.DelayedBytes + s.BacklogBytes, Consumers: uint64(s.Consumers), Rates: toRates(&q.Rates),
	}
}

// toRates translates rates.
func toRates(r *stats.Rates) *brokerv1.FlowRates {
	return &brokerv1.FlowRates{Publish: r.Publish, Confirm: r.Confirm, Deliver: r.Deliver, Ack: r.Ack, Redeliver: r.Redeliver, DeadLetter: r.DeadLetter}
}
