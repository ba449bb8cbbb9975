package client

import (
	"context"
	"reflect"
	"time"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// WatchClusterRequest chooses the queues of samples.
type WatchClusterRequest struct {
	// Sort is what the first queues have most of: rate, ready, unacked or dead_letters; empty: rate.
	Sort string `api:"sort"`
	// Filter is a part of vhost/queue, in any case; empty: all.
	Filter string `api:"filter"`
	Limit  uint32 `api:"limit"` // 0: 50; at most 1,000
}

// ClusterSample are the figures of the cluster at one time.
type ClusterSample struct {
	At      time.Time     `api:"at_ms"`
	Cluster string        `api:"cluster"`
	Node    string        `api:"node"` // that has sent it
	Totals  ClusterTotals `api:"totals"`
	Rates   FlowRates     `api:"rates"`
	Nodes   []NodeFigures `api:"nodes"`
	// Queues are those that the request chooses. They are at most 5 seconds older than the sample.
	Queues   []QueueFigures `api:"queues"`
	Matching uint64         `api:"matching"` // queues that the filter selects
	// Silent are the nodes that did not answer: what they count is missing.
	Silent []string `api:"silent"`
	// Alarms say what ails nodes.
	Alarms []string `api:"alarms"`
	// RatesOver is the time over which the rates of queues are measured; 0: they are not known yet.
	RatesOver time.Duration `api:"rates_over_ms"`
}

// ClusterTotals add up all queues.
type ClusterTotals struct {
	Queues      uint64 `api:"queues"`
	Ready       uint64 `api:"ready"`
	Unacked     uint64 `api:"unacked"`
	Delayed     uint64 `api:"delayed"`
	DeadLetters uint64 `api:"dead_letters"` // that their source queues keep until every target has them
	Bytes       uint64 `api:"bytes"`
	Consumers   uint64 `api:"consumers"`
	Connections uint64 `api:"connections"`
}

// FlowRates are in messages per second.
type FlowRates struct {
	Publish    float64 `api:"publish"`
	Confirm    float64 `api:"confirm"` // of nodes only
	Deliver    float64 `api:"deliver"`
	Ack        float64 `api:"ack"`
	Redeliver  float64 `api:"redeliver"`
	DeadLetter float64 `api:"dead_letter"`
}

// NodeFigures are those of a node. Pointers are nil if something is not known.
type NodeFigures struct {
	ID          string    `api:"id"`
	Answers     bool      `api:"answers"`
	Draining    bool      `api:"draining"`
	Version     string    `api:"version"`
	Leads       uint64    `api:"leads"` // queues
	Ready       uint64    `api:"ready"` // messages in these
	Rates       FlowRates `api:"rates"`
	Connections uint64    `api:"connections"`
	CPU         *float64  `api:"cpu"` // processors in use
	Processors  uint32    `api:"processors"`
	Memory      *uint64   `api:"memory_bytes"`
	MemoryHigh  uint64    `api:"memory_high_bytes"` // publishers are held back above it; 0: never
	// ConfirmP99 and SyncP99 are times that one confirm and one sync of the log in a hundred exceeded in the last seconds.
	ConfirmP99 *uint64 `api:"confirm_p99_us"`
	SyncP99    *uint64 `api:"sync_p99_us"`
	DiskFree   *uint64 `api:"disk_free_bytes"`
}

// QueueFigures are those of a queue, from its leader.
type QueueFigures struct {
	VHost       string    `api:"vhost"`
	Name        string    `api:"name"`
	Leader      string    `api:"leader"`
	Ready       uint64    `api:"ready"`
	Unacked     uint64    `api:"unacked"`
	Delayed     uint64    `api:"delayed"`
	DeadLetters uint64    `api:"dead_letters"`
	Bytes       uint64    `api:"bytes"`
	Consumers   uint64    `api:"consumers"`
	Rates       FlowRates `api:"rates"`
}

// WatchCluster calls seen with a sample of the cluster now and about once a second, until ctx ends or seen fails. It
// continues on another node when the one that it uses is lost.
func (c *Client) WatchCluster(ctx context.Context, r WatchClusterRequest, seen func(ClusterSample) error) error {
	var gone error // error of seen
	for retry := (backoff{}); ; {
		err := c.try(ctx, func(ctx context.Context, n *node) error {
			q := new(brokerv1.WatchClusterRequest)
			if err := toProto(reflect.ValueOf(r), q.ProtoReflect()); err != nil {
				return err
			}
			stream, err := n.figures.WatchCluster(ctx, q)
			if err != nil {
				return err
			}
			return receive(stream, func(x *brokerv1.WatchClusterResponse) error {
				retry = backoff{}
				gone = seen(owned[ClusterSample](x))
				return gone
			})
		})
		if gone != nil {
			return gone
		}
		if err := c.again(ctx, &retry, err); err != nil {
			return err
		}
	}
}
