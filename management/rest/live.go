package rest

import (
	"context"
	"math"
	"time"

	"github.com/quorate/quorate/management/stats"
)

// liveRoutes show the cluster as it changes.
func liveRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/live", tag: monitoring, always: true, serve: watchLive, says: "the cluster's figures about once a second, as server-sent events, after those of the last minutes that somebody watched"},
		{method: "GET", path: "/v1/live/newest", tag: monitoring, always: true, serve: getLive, says: "the newest of these figures, at most a second old, as one answer"},
	}
}

// eventHistory is the first event of /v1/live. Those that follow have no name.
const eventHistory = "history"

// liveSample is a sample of the cluster. It has its own types, since a viewer gets one each second and history has
// hundreds.
type liveSample struct {
	At      int64       `json:"at"` // milliseconds since the Unix epoch
	Cluster string      `json:"cluster"`
	Totals  liveTotals  `json:"totals"`
	Rates   liveRates   `json:"rates"`
	Objects liveObjects `json:"objects"`
	Nodes   []liveNode  `json:"nodes"`
	Silent  []string    `json:"silent"`
	Alarms  []string    `json:"alarms"`
}

// liveTotals add up queues.
type liveTotals struct {
	Queues      int    `json:"queues"`
	Ready       uint64 `json:"ready"`
	Unacked     uint64 `json:"unacked"`
	Delayed     uint64 `json:"delayed"`
	DeadLetters uint64 `json:"dead_letters"`
	Bytes       uint64 `json:"bytes"`
	Consumers   int    `json:"consumers"`
}

// liveRates are in messages per second.
type liveRates struct {
	Publish    float64 `json:"publish"`
	Confirm    float64 `json:"confirm"`
	Deliver    float64 `json:"deliver"`
	Ack        float64 `json:"ack"`
	Redeliver  float64 `json:"redeliver"`
	DeadLetter float64 `json:"dead_letter"`
}

// liveObjects counts the objects of all vhosts.
type liveObjects struct {
	Connections int `json:"connections"`
	Channels    int `json:"channels"`
	Consumers   int `json:"consumers"`
	Exchanges   int `json:"exchanges"`
	Queues      int `json:"queues"`
	VHosts      int `json:"vhosts"`
}

// liveNode is a sample of a node. What is not known of it is null.
type liveNode struct {
	Name        string    `json:"name"`
	Answers     bool      `json:"answers"`
	Refused     string    `json:"refused"`     // why the node that answers refuses it; "": it does not
	Phase       string    `json:"start_phase"` // of its start; "started": it is over, "": not known
	Leads       int       `json:"leads"`       // queues
	Members     int       `json:"members"`     // queues that it is a member of
	Ready       uint64    `json:"ready"`       // in the queues that it leads
	Rates       liveRates `json:"rates"`
	Connections int       `json:"connections"`
	Channels    int       `json:"channels"`
	CPU         *float64  `json:"cpu"` // cores in use
	Processors  *int      `json:"processors"`
	Memory      *uint64   `json:"memory_bytes"`
	MemoryLimit *uint64   `json:"memory_limit_bytes"` // 0: none
	MemoryHigh  *uint64   `json:"memory_high_bytes"`  // publishers are held back above it; 0: never
	ConfirmP99  *float64  `json:"confirm_p99_ms"`
	FsyncP99    *float64  `json:"fsync_p99_ms"`
	DiskFree    *uint64   `json:"disk_free_bytes"`
	Disk        *uint64   `json:"disk_bytes"` // size of the file system
	Version     string    `json:"version"`
	Draining    bool      `json:"draining"`
}

// ofSample shows a sample.
func ofSample(s *stats.Cluster) liveSample {
	t, o := &s.Totals, &s.Objects
	out := liveSample{
		At: s.At.UnixMilli(), Cluster: s.Name, Rates: ofRates(&s.Rates),
		Totals:  liveTotals{Queues: t.Queues, Ready: t.Ready, Unacked: t.Unsettled, Delayed: t.Delayed, DeadLetters: t.Backlog, Bytes: t.Bytes, Consumers: t.Consumers},
		Objects: liveObjects{Connections: o.Connections, Channels: o.Channels, Consumers: o.Consumers, Exchanges: o.Exchanges, Queues: o.Queues, VHosts: o.VHosts},
		Nodes:   make([]liveNode, len(s.Nodes)), Silent: orEmpty(s.Silent), Alarms: orEmpty(s.Alarms),
	}
	for i := range s.Nodes {
		out.Nodes[i] = ofLiveNode(&s.Nodes[i])
	}
	return out
}

// ofLiveNode shows a node.
func ofLiveNode(n *stats.Node) liveNode {
	out := liveNode{
		Name: n.ID, Answers: n.Answers, Refused: n.Refused, Phase: string(n.Start.Phase),
		Leads: n.Totals.Queues, Members: n.Replicas, Ready: n.Totals.Ready, Rates: ofRates(&n.Rates), Connections: n.Connections, Channels: n.Channels, Version: n.Version, Draining: n.Draining,
	}
	if d := n.Disk; d != nil {
		out.DiskFree = &d.Free
		if d.Size > 0 {
			out.Disk = &d.Size
		}
	}
	if v := n.Vitals; v != nil {
		out.Processors, out.Memory, out.MemoryLimit, out.MemoryHigh = &v.Processors, &v.Memory, &v.MemoryLimit, &v.MemoryHigh
		out.ConfirmP99, out.FsyncP99 = milliseconds(v.ConfirmP99), milliseconds(v.SyncP99)
		if v.CPU != nil {
			cpu := hundredths(*v.CPU)
			out.CPU = &cpu
		}
	}
	return out
}

// milliseconds shows a time to a hundredth; nil stays nil.
func milliseconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	ms := hundredths(float64(d.Microseconds()) / 1000)
	return &ms
}

// ofRates shows rates, to a hundredth: history has thousands of them.
func ofRates(r *stats.Rates) liveRates {
	return liveRates{
		Publish: hundredths(r.Publish), Confirm: hundredths(r.Confirm), Deliver: hundredths(r.Deliver), Ack: hundredths(r.Ack),
		Redeliver: hundredths(r.Redeliver), DeadLetter: hundredths(r.DeadLetter),
	}
}

// hundredths rounds.
func hundredths(x float64) float64 { return math.Round(x*100) / 100 }

// watchLive sends what was seen before, then each new sample. All that watch share the questions to the nodes. A viewer
// that reads slowly misses samples; it has no queue.
func watchLive(c *call) (reply, error) {
	return c.stream(func(ctx context.Context, s *stream) error {
		all := c.api.Stats.History()
		history := make([]liveSample, len(all))
		var shown time.Time // of the newest sample sent
		for i, x := range all {
			history[i], shown = ofSample(x), x.At
		}
		if err := s.send("", eventHistory, history); err != nil {
			return err
		}
		return c.api.Stats.Watch(ctx, func(x *stats.Cluster) error {
			if !x.At.After(shown) { // history has it
				return nil
			}
			return s.send("", "", ofSample(x))
		})
	})
}

// getLive shares the questions to the nodes with those that watch.
func getLive(c *call) (reply, error) {
	x, err := c.api.Stats.Cluster(c.Context())
	if err != nil {
		return reply{}, err
	}
	return reply{body: ofSample(x)}, nil
}
