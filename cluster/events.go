package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
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

// EventCursor is a place in the events of all nodes.
type EventCursor struct {
	Catalog uint64                      `json:"c"`
	Nodes   map[id.NodeID]EventPosition `json:"n"`
}

// EventPosition is the last event of a life of a node.
type EventPosition struct {
	Epoch id.Epoch `json:"e"`
	Seq   uint64   `json:"s"`
}

func (k *EventCursor) clone() EventCursor {
	out := EventCursor{Catalog: k.Catalog, Nodes: make(map[id.NodeID]EventPosition, len(k.Nodes))}
	for n, p := range k.Nodes {
		out.Nodes[n] = p
	}
	return out
}

// eventsOf is what one source told; node is "" for the catalog.
type eventsOf struct {
	node   id.NodeID
	at     EventPosition
	events []event.Event
}

// WatchEvents calls told with events of all nodes, those of one node in order, until it
// fails or ctx ends: those behind a cursor, or from now on if it is nil. The first call has
// no events. While told runs nothing is read; what the nodes do not keep that long is told
// as missed.
func (c *Cluster) WatchEvents(ctx context.Context, from *EventCursor, told func([]event.Event, EventCursor) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel() // before the wait
	at := c.beginEvents(ctx, from)
	if err := told(nil, at.clone()); err != nil {
		return err
	}
	news := make(chan eventsOf)
	sources.Go(func() { c.readLog(ctx, c.events.catalog, "", at.Catalog, news) })
	sources.Go(func() { c.readLog(ctx, c.events.queues, c.cfg.Node, at.Nodes[c.cfg.Node].Seq, news) })
	asked := map[id.NodeID]bool{c.cfg.Node: true}
	for {
		changed := c.views.next()
		for n := range c.View().Nodes() {
			if asked[n.ID] {
				continue
			}
			asked[n.ID] = true
			pos, known := at.Nodes[n.ID]
			sources.Go(func() { c.readPeer(ctx, n.ID, pos, known || from != nil, news) })
		}
		select {
		case s := <-news:
			if s.node == "" {
				at.Catalog = s.at.Seq
			} else {
				at.Nodes[s.node] = s.at
			}
			if err := told(s.events, at.clone()); err != nil {
				return err
			}
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// beginEvents completes a cursor with where the logs stand.
func (c *Cluster) beginEvents(ctx context.Context, from *EventCursor) EventCursor {
	if from != nil {
		at := from.clone()
		if own := at.Nodes[c.cfg.Node]; own.Epoch != c.epoch {
			at.Nodes[c.cfg.Node] = EventPosition{Epoch: c.epoch}
		}
		return at
	}
	at := EventCursor{Catalog: c.events.catalog.Last(), Nodes: map[id.NodeID]EventPosition{
		c.cfg.Node: {Epoch: c.epoch, Seq: c.events.queues.Last()},
	}}
	short, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	// A node that does not answer is asked again when it does.
	_ = c.askOthers(short, func(ctx context.Context, n id.NodeID, peer nodev1.NodeClient) (func() error, error) {
		r, err := peer.AwaitEvents(ctx, &nodev1.AwaitEventsRequest{Now: true})
		return func() error {
			at.Nodes[n] = EventPosition{Epoch: id.Epoch(r.GetEpoch()), Seq: r.GetLast()}
			return nil
		}, err
	}, func(id.NodeID) {})
	return at
}

// readLog hands on what a log of this node gets.
func (c *Cluster) readLog(ctx context.Context, l *event.Log, node id.NodeID, after uint64, news chan<- eventsOf) {
	for {
		found := l.Await(ctx, after, eventBatch)
		if len(found) == 0 {
			return // ctx has ended
		}
		after = found[len(found)-1].Seq
		select {
		case news <- eventsOf{node, EventPosition{c.epoch, after}, found}:
		case <-ctx.Done():
			return
		}
	}
}

// readPeer hands on what another node tells. Without a known position it begins with what
// happens from now on.
func (c *Cluster) readPeer(ctx context.Context, n id.NodeID, at EventPosition, known bool, news chan<- eventsOf) {
	for {
		s, err := c.askEvents(ctx, n, at, known)
		if err != nil {
			select {
			case <-time.After(eventRetry):
				continue
			case <-ctx.Done():
				return
			}
		}
		if known && len(s.events) == 0 && s.at == at {
			continue
		}
		at, known = s.at, true
		select {
		case news <- s:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Cluster) askEvents(ctx context.Context, n id.NodeID, at EventPosition, known bool) (eventsOf, error) {
	s := eventsOf{node: n}
	peer, err := c.mux.Client(n)
	if err != nil {
		return s, err
	}
	r, err := peer.AwaitEvents(ctx, &nodev1.AwaitEventsRequest{Epoch: uint64(at.Epoch), After: at.Seq, Now: !known})
	if err != nil {
		return s, err
	}
	s.at = EventPosition{id.Epoch(r.GetEpoch()), r.GetLast()}
	for _, e := range r.GetEvents() {
		s.events = append(s.events, event.Event{
			Seq: e.GetSeq(), AtMs: e.GetAtMs(), Node: n, Kind: event.Kind(e.GetKind()), VHost: e.GetVhost(), Name: e.GetName(),
			Cause: e.GetCause(), Detail: e.GetDetail(), Count: e.GetCount(),
		})
	}
	return s, nil
}

// AwaitEvents returns events of the queues that this node leads.
func (s calls) AwaitEvents(ctx context.Context, r *nodev1.AwaitEventsRequest) (*nodev1.AwaitEventsResponse, error) {
	log := s.c.events.queues
	out := &nodev1.AwaitEventsResponse{Epoch: uint64(s.c.epoch)}
	if r.GetNow() {
		out.Last = log.Last()
		return out, nil
	}
	after := r.GetAfter()
	if id.Epoch(r.GetEpoch()) != s.c.epoch {
		after = 0
	}
	short, cancel := context.WithTimeout(ctx, awaitAtMost)
	defer cancel()
	defer context.AfterFunc(s.c.ctx, cancel)()
	out.Last = after
	for _, e := range log.Await(short, after, eventBatch) {
		out.Last = e.Seq
		out.Events = append(out.Events, &nodev1.Event{
			Seq: e.Seq, AtMs: e.AtMs, Kind: string(e.Kind), Vhost: e.VHost, Name: e.Name, Cause: e.Cause, Detail: e.Detail, Count: e.Count,
		})
	}
	return out, nil
}
