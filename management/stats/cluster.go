package stats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/broker/operators"
)

// inventory is what changes slowly and costs more to count than a sample: it is as old as the queues' figures.
type inventory struct {
	objects  Objects
	channels map[string]int // by node, as are connections
	clients  map[string]int
	carried  *Connections
	silent   []string
}

// collectCluster asks the nodes for their state, and at the same time for what else is due. What cannot be had of queues and
// objects is as it was before: the state of the nodes is what somebody looks for then.
func (c *Collector) collectCluster(ctx context.Context) (*Cluster, error) {
	at := time.Now()
	queues, objects := c.queues.newest(), c.objects.newest()
	var old [2]error
	var slow sync.WaitGroup
	slow.Go(func() { old[0] = renew(ctx, &c.queues, &queues) })
	slow.Go(func() { old[1] = renew(ctx, &c.objects, &objects) })
	status, err := c.Broker.Operators.ClusterStatus(ctx, true)
	slow.Wait()
	if err != nil {
		return nil, err
	}
	out := newCluster(c.cluster.newest(), &status, cmp.Or(queues, &Queues{}), cmp.Or(objects, &inventory{}), at)
	for i, err := range old {
		if err != nil {
			out.Alarms = append(out.Alarms, fmt.Sprintf("the figures of %s are not new: %s", [...]string{"queues", "objects"}[i], err))
		}
	}
	c.remember(out)
	return out, nil
}

// renew sets to to a fresh value, or leaves it as it is if that fails.
func renew[T any](ctx context.Context, s *shared[T], to *T) error {
	v, err := s.get(ctx)
	if err == nil {
		*to = v
	}
	return err
}

// collectInventory counts what there is.
func (c *Collector) collectInventory(ctx context.Context) (*inventory, error) {
	all, silent, err := c.Broker.Connections.ClientConnections(ctx, "", "")
	at := time.Now()
	if err != nil {
		return nil, err
	}
	exchanges, err := c.Broker.ListExchanges(ctx, "")
	if err != nil {
		return nil, err
	}
	vhosts, err := c.Broker.Administration.ListVHosts(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := c.Broker.Queues.List(ctx, "", false)
	if err != nil {
		return nil, err
	}
	out := &inventory{
		objects:  Objects{Connections: len(all), Exchanges: len(exchanges), VHosts: len(vhosts), Queues: queues.Len()},
		channels: map[string]int{}, clients: map[string]int{}, silent: silent,
	}
	var before *Connections
	if last := c.objects.newest(); last != nil {
		before = last.carried
	}
	out.carried = newConnections(before, all, at)
	for i := range all {
		x := &all[i]
		out.objects.Channels += x.Channels
		out.clients[string(x.Node)]++
		out.channels[string(x.Node)] += x.Channels
	}
	return out, nil
}

// newCluster makes a sample of what was collected, and compares it with the one before, which may be nil.
func newCluster(before *Cluster, s *operators.ClusterStatus, queues *Queues, i *inventory, at time.Time) *Cluster {
	out := &Cluster{At: at, Name: s.Cluster, Totals: queues.Totals, Objects: i.objects, Nodes: make([]Node, len(s.Nodes)), Churn: map[string]float64{}}
	out.Objects.Consumers = queues.Totals.Consumers
	totals, rates := byLeader(queues)
	silent := slices.Concat(queues.Silent, i.silent)
	for k := range s.Nodes {
		n := &out.Nodes[k]
		*n = Node{NodeStatus: s.Nodes[k], Connections: i.clients[s.Nodes[k].ID], Channels: i.channels[s.Nodes[k].ID]}
		if t := totals[n.ID]; t != nil {
			n.Totals = *t
		}
		if was := before.node(n.ID); was != nil {
			n.Rates, n.Use = gatewayRates(was, n, at.Sub(before.At)), useRates(was, n, at.Sub(before.At))
			out.addChurn(was, n, at.Sub(before.At))
		}
		if r := rates[n.ID]; r != nil {
			n.Rates = n.Rates.withQueues(*r)
		}
		out.Rates.add(&n.Rates)
		if !n.Answers {
			silent = append(silent, n.ID)
		}
		for _, a := range n.Alarms() {
			out.Alarms = append(out.Alarms, "Node "+n.ID+": "+a.Reason)
		}
	}
	slices.Sort(silent)
	out.Silent = slices.Compact(silent)
	return out
}

// byLeader adds up the queues of each leader.
func byLeader(queues *Queues) (map[string]*Totals, map[string]*Rates) {
	totals, rates := map[string]*Totals{}, map[string]*Rates{}
	for _, q := range queues.Of {
		if totals[q.Leader] == nil {
			totals[q.Leader], rates[q.Leader] = &Totals{}, &Rates{}
		}
		totals[q.Leader].add(q.Stats)
		rates[q.Leader].add(&q.Rates)
	}
	return totals, rates
}

// node returns the sample of a node; nil if c, which may be nil, has none.
func (c *Cluster) node(name string) *Node {
	if c == nil {
		return nil
	}
	i := slices.IndexFunc(c.Nodes, func(n Node) bool { return n.ID == name })
	if i < 0 {
		return nil
	}
	return &c.Nodes[i]
}

// remember adds a sample to the history and drops those that are too old.
func (c *Collector) remember(s *Cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = recent(append(c.history, s), s.At)
}

// History returns the samples of the last HistoryFor that were taken, oldest first. Times in which nobody asked have
// no samples.
func (c *Collector) History() []*Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(recent(c.history, time.Now()))
}

// recent returns the samples that History shows at a time.
func recent(all []*Cluster, now time.Time) []*Cluster {
	old := 0
	for old < len(all) && now.Sub(all[old].At) > HistoryFor {
		old++
	}
	return all[old:]
}
