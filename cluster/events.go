package cluster

import (
	"context"

	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// EventCounts returns how many events of each kind there were on this node since its start.
func (c *Cluster) EventCounts() map[event.Kind]uint64 { return c.events.Counts() }

// EmitQueue reports an event of a queue that this node leads. It does not wait.
func (c *Cluster) EmitQueue(q id.QueueUID, e event.Event) { c.events.EmitQueue(q, e) }

// Audit keeps a record of who changed what for those who watch (AU-1), and stamps it. It does not
// wait, and may be called concurrently.
func (c *Cluster) Audit(list event.AuditList, e event.Event) { c.events.Record(list, e) }

// AwaitEvents returns events of the queues that this node leads.
func (s calls) AwaitEvents(ctx context.Context, r *nodev1.AwaitEventsRequest) (*nodev1.AwaitEventsResponse, error) {
	return s.c.watched.AwaitEvents(ctx, r)
}

// AwaitAudit returns audit records of this node.
func (s calls) AwaitAudit(ctx context.Context, r *nodev1.AwaitAuditRequest) (*nodev1.AwaitAuditResponse, error) {
	return s.c.watched.AwaitAudit(ctx, r)
}

// AwaitLog returns lines of this node's log.
func (s calls) AwaitLog(ctx context.Context, r *nodev1.AwaitLogRequest) (*nodev1.AwaitLogResponse, error) {
	return s.c.logs.AwaitLog(ctx, r)
}

// EmitQuota reports that a quota bounds clients of this node, or no longer does. It does not wait.
func (c *Cluster) EmitQuota(e event.Event) {
	c.events.EmitNode(e)
	c.log.Info("event", "kind", string(e.Kind), "vhost", e.VHost, "name", e.Name, "cause", e.Cause, "detail", e.Detail, "count", e.Count)
}
