package cluster

import (
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
)

// EventCounts returns how many events of each kind there were on this node since its start.
func (c *Cluster) EventCounts() map[event.Kind]uint64 { return c.events.Counts() }

// EmitQueue reports an event of a queue that this node leads. It does not wait.
func (c *Cluster) EmitQueue(q id.QueueUID, e event.Event) { c.events.EmitQueue(q, e) }

// Audit keeps a record of who changed what for those who watch (AU-1), and stamps it. It does not
// wait, and may be called concurrently.
func (c *Cluster) Audit(list event.AuditList, e event.Event) { c.events.Record(list, e) }

// EmitQuota reports that a quota bounds clients of this node, or no longer does. It does not wait.
func (c *Cluster) EmitQuota(e event.Event) {
	c.events.EmitNode(e)
	c.log.Info("event", "kind", string(e.Kind), "vhost", e.VHost, "name", e.Name, "cause", e.Cause, "detail", e.Detail, "count", e.Count)
}
