package cluster

import (
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
)

// EventCounts returns how many events of each kind there were on this node since its start.
func (c *Cluster) EventCounts() map[event.Kind]uint64 { return c.events.Counts() }

// EmitQueue tells of an event of a queue that this node leads. It does not wait.
func (c *Cluster) EmitQueue(q id.QueueUID, e event.Event) { c.events.EmitQueue(q, e) }
