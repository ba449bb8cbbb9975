package cluster

import (
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
)

const (
	// eventBatch bounds the events of one answer.
	eventBatch = 256
	// eventRetry is the wait before a node that did not answer is asked for events again.
	eventRetry = time.Second
)

// happenings are the events of a node: those of the catalog, which every node has, numbered
// by the index of the command; and those of the queues that the node leads.
type happenings struct {
	c       *Cluster
	started func() int64 // when the node was, ms since the Unix epoch: older commands are read again, not new
	catalog *event.Log
	queues  *event.Log
	audit   event.AuditLog
	// entry has what the commands so far of a log entry have told: their events have one number,
	// and are shown together. It belongs to the apply path.
	entry []event.Event
}

// EventCounts returns how many events of each kind there were on this node since its start.
func (c *Cluster) EventCounts() map[event.Kind]uint64 {
	out := c.events.catalog.Counts()
	for k, n := range c.events.queues.Counts() {
		out[k] += n
	}
	return out
}

// EmitQueue tells of an event of a queue that this node leads. It does not wait.
func (c *Cluster) EmitQueue(q id.QueueUID, e event.Event) {
	rec, ok := c.View().QueueByUID(q)
	if !ok {
		return
	}
	e.VHost, e.Name, e.Node, e.AtMs = rec.VHost, rec.Name, c.cfg.Node, c.clock.nowMs()
	c.events.queues.Add(e)
	log := c.log.Info
	switch e.Kind {
	case event.LeaderChanged:
		log = c.log.Debug // there is one for every queue of a node that is lost
	case event.DegradedStrategy, event.DeadLetterBlocked, event.MessagesDropped:
		log = c.log.Warn
	default:
	}
	log("event", "kind", string(e.Kind), "vhost", e.VHost, "queue", e.Name, "cause", e.Cause, "detail", e.Detail, "count", e.Count)
}

// emitNode tells of an event of this node itself. It does not wait.
func (c *Cluster) emitNode(e event.Event) {
	e.Node, e.AtMs = c.cfg.Node, c.clock.nowMs()
	c.events.queues.Add(e)
}

// EmitQuota tells that a quota bounds clients of this node, or does not any more. It does not wait.
func (c *Cluster) EmitQuota(e event.Event) {
	c.emitNode(e)
	c.log.Info("event", "kind", string(e.Kind), "vhost", e.VHost, "name", e.Name, "cause", e.Cause, "detail", e.Detail, "count", e.Count)
}

// applied takes note of a catalog command that was carried out, on the apply path.
func (h *happenings) applied(cmd catalog.Command, r catalog.Reply, before *catalog.View, nowMs int64) {
	if h == nil || r.Err != nil || nowMs < h.started() {
		return
	}
	e, ok := eventOf(cmd, r, before)
	if !ok {
		return
	}
	e.Seq, e.Node, e.AtMs = r.Index, h.c.cfg.Node, nowMs
	h.entry = append(h.entry, e)
	h.c.log.Debug("event", "kind", string(e.Kind), "vhost", e.VHost, "name", e.Name, "detail", e.Detail)
}

// entryDone tells what the commands of an entry have changed, on the apply path.
func (h *happenings) entryDone() {
	if h == nil || len(h.entry) == 0 {
		return
	}
	h.catalog.Add(h.entry...)
	h.entry = h.entry[:0]
}

// restored tells that commands were passed over: their outcome came as a snapshot.
func (h *happenings) restored(from, to uint64) {
	if h == nil || from == 0 || to <= from {
		return
	}
	h.catalog.Add(event.Event{Seq: to, Kind: event.Missed, Node: h.c.cfg.Node, AtMs: h.c.clock.nowMs(), Count: to - from})
}

// eventOf says what a command has changed, if it is something that is told.
func eventOf(cmd catalog.Command, r catalog.Reply, before *catalog.View) (event.Event, bool) {
	made := func(created, changed event.Kind, vhost, name string) (event.Event, bool) {
		if r.Created {
			return event.Event{Kind: created, VHost: vhost, Name: name}, true
		}
		return event.Event{Kind: changed, VHost: vhost, Name: name}, changed != ""
	}
	gone := func(k event.Kind, vhost, name string) (event.Event, bool) {
		return event.Event{Kind: k, VHost: vhost, Name: name}, r.Deleted
	}
	switch c := cmd.(type) {
	case *catalog.DeclareQueue:
		return made(event.QueueCreated, "", c.VHost, c.Name)
	case *catalog.DeleteQueue:
		return gone(event.QueueDeleted, c.VHost, c.Name)
	case *catalog.DissolveQueue:
		return ofDissolve(r.UID, before)
	case *catalog.SetQueueMembers:
		return ofQueue(event.QueueChanged, c.UID, before, "")
	case *catalog.SettleMemberChange:
		return ofChange(c, before)
	case *catalog.DeclareExchange:
		return made(event.ExchangeCreated, "", c.VHost, c.Name)
	case *catalog.DeleteExchange:
		return gone(event.ExchangeDeleted, c.VHost, c.Name)
	case *catalog.Bind:
		return made(event.BindingCreated, "", c.VHost, bindingText(c.Source, c.Destination, c.Key))
	case *catalog.Unbind:
		return gone(event.BindingDeleted, c.VHost, bindingText(c.Source, c.Destination, c.Key))
	case *catalog.PutPolicy:
		return made(event.PolicyCreated, event.PolicyChanged, c.VHost, c.Name)
	case *catalog.DeletePolicy:
		return gone(event.PolicyDeleted, c.VHost, c.Name)
	case *catalog.PutVHost:
		return made(event.VHostCreated, event.VHostChanged, c.Name, c.Name)
	case *catalog.DeleteVHost:
		return gone(event.VHostDeleted, c.Name, c.Name)
	}
	return event.Event{}, false
}

func bindingText(source, destination, key string) string {
	return source + " " + destination + " " + key
}

func ofQueue(k event.Kind, uid id.QueueUID, before *catalog.View, detail string) (event.Event, bool) {
	q, ok := before.QueueByUID(uid)
	if !ok {
		return event.Event{}, false
	}
	return event.Event{Kind: k, VHost: q.VHost, Name: q.Name, Detail: detail}, true
}

// ofDissolve tells that a queue began to go, not of a repeat.
func ofDissolve(uid id.QueueUID, before *catalog.View) (event.Event, bool) {
	if q, ok := before.QueueByUID(uid); !ok || q.Dissolving > 0 {
		return event.Event{}, false
	}
	return ofQueue(event.QueueDeleting, uid, before, "")
}

// ofChange tells of members that came and went.
func ofChange(c *catalog.SettleMemberChange, before *catalog.View) (event.Event, bool) {
	q, ok := before.QueueByUID(c.UID)
	if !ok || q.Change == nil {
		return event.Event{}, false
	}
	switch c.Step {
	case catalog.StepJoined:
		return ofQueue(event.MemberAdded, c.UID, before, string(q.Change.Join))
	case catalog.StepLeft:
		return ofQueue(event.MemberRemoved, c.UID, before, string(q.Change.Leave))
	case catalog.StepNone, catalog.StepCancelled:
	}
	return event.Event{}, false
}
