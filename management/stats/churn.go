package stats

import "time"

// ChurnCounters are the counters of nodes, by their names, that say how clients and queues come and go.
func ChurnCounters() []string {
	return []string{
		"connections_opened", "connections_closed", "channels_opened", "channels_closed", "queues_declared", "queues_created", "queues_deleted",
	}
}

// addChurn adds how fast a node counts them.
func (c *Cluster) addChurn(before, now *Node, elapsed time.Duration) {
	if !sameLife(before, now) {
		return
	}
	for _, name := range ChurnCounters() {
		c.Churn[name] += perSecond(before.Counters[name], now.Counters[name], elapsed)
	}
}

// Sum adds up a counter of all nodes, each of which counts since its start.
func (c *Cluster) Sum(counter string) (sum uint64) {
	for i := range c.Nodes {
		sum += c.Nodes[i].Counters[counter]
	}
	return sum
}
