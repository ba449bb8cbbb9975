package stats

import (
	"time"

	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/broker/queues"
)

// Queues are the figures of all queues that have a leader, at one time. They are read only, since all that ask share them.
type Queues struct {
	At     time.Time
	Of     map[uint64]*Queue // by UID
	Totals Totals
	Rates  Rates             // of all queues together
	VHosts map[string]*VHost // those that have such queues
	Over   time.Duration     // that the rates are measured over; 0: they are not known
	Before time.Time         // of the figures that they were compared with; zero if Over is 0
	Silent []string          // nodes that did not answer: the queues that they lead are missing
}

// VHost adds up the queues of a vhost.
type VHost struct {
	Totals Totals
	Counts Counts
	Rates  Rates
	Growth Growth
}

// Counts are what queues have counted since they were declared.
type Counts struct{ Publish, Deliver, Get, EmptyGets, Ack, Redeliver uint64 }

// Growth is how fast the messages of a queue or a vhost become more, in messages per second; negative: they become fewer.
// It is 0 if it is not known.
type Growth struct{ Messages, Ready, Unsettled float64 }

// Plus adds up.
func (g Growth) Plus(x Growth) Growth {
	return Growth{Messages: g.Messages + x.Messages, Ready: g.Ready + x.Ready, Unsettled: g.Unsettled + x.Unsettled}
}

// growth compares the messages of two times.
func growth(before, now *Totals, elapsed time.Duration) Growth {
	return Growth{
		Messages:  change(before.Messages(), now.Messages(), elapsed),
		Ready:     change(before.Ready, now.Ready, elapsed),
		Unsettled: change(before.Unsettled, now.Unsettled, elapsed),
	}
}

// VHost returns what the queues of a vhost add up to; zeros if it has none.
func (q *Queues) VHost(name string) *VHost {
	if h := q.VHosts[name]; h != nil {
		return h
	}
	return &VHost{}
}

// RatesOf returns the rates of a queue; nil if it has no leader.
func (q *Queues) RatesOf(uid uint64) *Rates {
	if x := q.Of[uid]; x != nil {
		return &x.Rates
	}
	return nil
}

// GrowthOf returns how fast the messages of a queue become more; nil if it has no leader.
func (q *Queues) GrowthOf(uid uint64) *Growth {
	if x := q.Of[uid]; x != nil {
		return &x.Growth
	}
	return nil
}

// Counts adds up what the queues of all vhosts have counted.
func (q *Queues) Counts() (sum Counts) {
	for _, h := range q.VHosts {
		sum.plus(&h.Counts)
	}
	return sum
}

// Queue are the figures of one queue.
type Queue struct {
	VHost, Name string
	Leader      string
	Stats       *queues.Stats
	Rates       Rates
	Growth      Growth
	Past        *Past // nil: nothing was known of it before, or another node led it
}

// Past is what was known of a queue when the figures were collected before, at the time Queues.Before.
type Past struct {
	Messages, Ready, Unsettled uint64
	Counts
}

// pastOf is what is remembered of a queue.
func pastOf(s *queues.Stats) Past {
	t := totalsOf(s)
	return Past{Messages: t.Messages(), Ready: t.Ready, Unsettled: t.Unsettled, Counts: countsOf(s)}
}

// Present is what is known of the queue now, as Past has it of the time before.
func (q *Queue) Present() Past { return pastOf(q.Stats) }

// Totals add up queues.
type Totals struct {
	Queues                             int
	Ready, Unsettled, Delayed, Backlog uint64 // messages; Backlog: dead letters that wait
	Bytes                              uint64 // of all these messages
	Consumers                          int
}

// Messages counts all of them.
func (t *Totals) Messages() uint64 { return t.Ready + t.Unsettled + t.Delayed + t.Backlog }

// Rates are in messages per second.
type Rates struct {
	Publish    float64 // of a queue: messages that it stored; of nodes: publishes that reached a queue
	Confirm    float64 // of nodes only
	Deliver    float64 // to consumers and by Get
	Get        float64 // by Get
	Ack        float64
	Redeliver  float64
	DeadLetter float64 // of a queue: discarded with a target; of nodes: stored by their targets
	// Of nodes only: Returned and Dropped count publishes that reached no queue, the others what clients were given, by how
	// they asked for it and how they acknowledge.
	Returned, Dropped, Consumed, ConsumedAutoAck, Got, GotAutoAck float64
}

// Cluster is a sample of all nodes. It is read only, since all that ask share it.
type Cluster struct {
	At      time.Time
	Name    string
	Nodes   []Node
	Totals  Totals // of the queues; at most FreshFor older than At, as are the rates that queues count and Objects
	Rates   Rates
	Churn   map[string]float64 // by the names of ChurnCounters, per second
	Objects Objects
	Silent  []string // nodes that did not answer
	Alarms  []string // what ails the nodes, in words
}

// Objects counts the objects of all vhosts.
type Objects struct{ Connections, Channels, Consumers, Exchanges, Queues, VHosts int }

// Node is a sample of one node.
type Node struct {
	operators.NodeStatus
	Connections, Channels int    // of its clients
	Totals                Totals // of the queues that it leads
	Rates                 Rates  // what it counts as gateway, and what the queues count that it leads
	Use                   Use
}

// Use is how fast what a node uses becomes more, per second; negative: it becomes less. It is 0 if it is not known.
type Use struct{ Memory, Files, DiskFree float64 }

// UseOf returns how fast what a node uses becomes more.
func (c *Cluster) UseOf(name string) Use {
	if n := c.node(name); n != nil {
		return n.Use
	}
	return Use{}
}
