package cluster

import (
	"context"
	"sync"
	"time"

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

// EventCursor is a place in the events of all nodes.
type EventCursor struct {
	Catalog uint64                      `json:"c"`
	Nodes   map[id.NodeID]EventPosition `json:"n"`
	Audit   map[string]EventPosition    `json:"a,omitempty"` // by auditKey
}

// EventPosition is the last event of a life of a node.
type EventPosition struct {
	Epoch id.Epoch `json:"e"`
	Seq   uint64   `json:"s"`
}

func (k *EventCursor) clone() EventCursor {
	out := EventCursor{Catalog: k.Catalog, Nodes: make(map[id.NodeID]EventPosition, len(k.Nodes)), Audit: make(map[string]EventPosition, len(k.Audit))}
	for n, p := range k.Nodes {
		out.Nodes[n] = p
	}
	for n, p := range k.Audit {
		out.Audit[n] = p
	}
	return out
}

// eventsOf is what one source told; node is "" for the catalog.
type eventsOf struct {
	node   id.NodeID
	key    string // of audit records: auditKey; else ""
	at     EventPosition
	events []event.Event
}

// Watch chooses what is watched.
type Watch struct {
	Events bool // all but audit records
	Audit  bool
}

// WatchEvents calls told with what w chooses of all nodes, that of one node in order, until it
// fails or ctx ends: what is behind a cursor, or from now on if it is nil. The first call has
// no events. While told runs nothing is read; what the nodes do not keep that long is told
// as missed.
func (c *Cluster) WatchEvents(ctx context.Context, from *EventCursor, w Watch, told func([]event.Event, EventCursor) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel() // before the wait
	at := c.beginEvents(ctx, from, w)
	if err := told(nil, at.clone()); err != nil {
		return err
	}
	news := make(chan eventsOf)
	c.readOwn(ctx, &sources, w, &at, news)
	asked := map[id.NodeID]bool{c.cfg.Node: true}
	for {
		changed := c.views.Next()
		for n := range c.View().Nodes() {
			if asked[n.ID] {
				continue
			}
			asked[n.ID] = true
			c.readOther(ctx, &sources, n.ID, w, &at, from != nil, news)
		}
		select {
		case s := <-news:
			at.passed(&s)
			if err := told(s.events, at.clone()); err != nil {
				return err
			}
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// passed moves behind what a source told.
func (k *EventCursor) passed(s *eventsOf) {
	switch {
	case s.key != "":
		k.Audit[s.key] = s.at
	case s.node == "":
		k.Catalog = s.at.Seq
	default:
		k.Nodes[s.node] = s.at
	}
}

// readOwn begins to read this node's logs.
func (c *Cluster) readOwn(ctx context.Context, sources *sync.WaitGroup, w Watch, at *EventCursor, news chan<- eventsOf) {
	read := func(l *event.Log, s eventsOf, after uint64) {
		sources.Go(func() { c.readLog(ctx, l, s, after, news) })
	}
	if w.Events {
		read(c.events.Catalog(), eventsOf{}, at.Catalog)
		read(c.events.Queues(), eventsOf{node: c.cfg.Node}, at.Nodes[c.cfg.Node].Seq)
	}
	if w.Audit {
		for _, list := range event.AuditLists() {
			key := auditKey(c.cfg.Node, list)
			read(c.events.Audit(list), eventsOf{node: c.cfg.Node, key: key}, at.Audit[key].Seq)
		}
	}
}

// readOther begins to read those of another node.
func (c *Cluster) readOther(ctx context.Context, sources *sync.WaitGroup, n id.NodeID, w Watch, at *EventCursor, all bool, news chan<- eventsOf) {
	read := func(pos EventPosition, known bool, ask askLog) {
		sources.Go(func() { c.readPeer(ctx, ask, pos, known || all, news) })
	}
	if w.Events {
		pos, known := at.Nodes[n]
		read(pos, known, func(at EventPosition, known bool) (eventsOf, error) { return c.askEvents(ctx, n, at, known) })
	}
	if w.Audit {
		for _, list := range event.AuditLists() {
			pos, known := at.Audit[auditKey(n, list)]
			read(pos, known, func(at EventPosition, known bool) (eventsOf, error) { return c.askAudit(ctx, n, list, at, known) })
		}
	}
}

// beginEvents completes a cursor with where the logs stand.
func (c *Cluster) beginEvents(ctx context.Context, from *EventCursor, w Watch) EventCursor {
	if from != nil {
		at := from.clone()
		if own := at.Nodes[c.cfg.Node]; own.Epoch != c.epoch {
			at.Nodes[c.cfg.Node] = EventPosition{Epoch: c.epoch}
		}
		for _, list := range event.AuditLists() {
			if key := auditKey(c.cfg.Node, list); at.Audit[key].Epoch != c.epoch {
				at.Audit[key] = EventPosition{Epoch: c.epoch}
			}
		}
		return at
	}
	at := EventCursor{Catalog: c.events.Catalog().Last(), Nodes: map[id.NodeID]EventPosition{
		c.cfg.Node: {Epoch: c.epoch, Seq: c.events.Queues().Last()},
	}, Audit: map[string]EventPosition{}}
	short, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	// A node that does not answer is asked again when it does.
	if w.Events {
		_ = c.askOthers(short, func(ctx context.Context, n id.NodeID, peer nodev1.NodeClient) (func() error, error) {
			r, err := peer.AwaitEvents(ctx, &nodev1.AwaitEventsRequest{Now: true})
			return func() error {
				at.Nodes[n] = EventPosition{Epoch: id.Epoch(r.GetEpoch()), Seq: r.GetLast()}
				return nil
			}, err
		}, func(id.NodeID) {})
	}
	if w.Audit {
		c.beginAudit(short, &at)
	}
	return at
}

// beginAudit completes a cursor with where the lists of audit records stand.
func (c *Cluster) beginAudit(ctx context.Context, at *EventCursor) {
	for _, list := range event.AuditLists() {
		at.Audit[auditKey(c.cfg.Node, list)] = EventPosition{Epoch: c.epoch, Seq: c.events.Audit(list).Last()}
		_ = c.askOthers(ctx, func(ctx context.Context, n id.NodeID, peer nodev1.NodeClient) (func() error, error) {
			r, err := peer.AwaitAudit(ctx, &nodev1.AwaitAuditRequest{Now: true, List: uint32(list)})
			return func() error {
				at.Audit[auditKey(n, list)] = EventPosition{Epoch: id.Epoch(r.GetEpoch()), Seq: r.GetLast()}
				return nil
			}, err
		}, func(id.NodeID) {})
	}
}

// readLog hands on what a log of this node gets; s says which one it is.
func (c *Cluster) readLog(ctx context.Context, l *event.Log, s eventsOf, after uint64, news chan<- eventsOf) {
	for {
		found := l.Await(ctx, after, eventBatch)
		if len(found) == 0 {
			return // ctx has ended
		}
		after = found[len(found)-1].Seq
		s.at, s.events = EventPosition{c.epoch, after}, found
		if s.key != "" {
			s.events = named(s.node, found)
		}
		select {
		case news <- s:
		case <-ctx.Done():
			return
		}
	}
}

// askLog asks another node for what is behind a position; without a known one where it stands.
type askLog func(at EventPosition, known bool) (eventsOf, error)

// readPeer hands on what another node tells. Without a known position it begins with what
// happens from now on.
func (c *Cluster) readPeer(ctx context.Context, ask askLog, at EventPosition, known bool, news chan<- eventsOf) {
	for {
		s, err := ask(at, known)
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
		s.events = append(s.events, fromEvent(n, e))
	}
	return s, nil
}

// AwaitEvents returns events of the queues that this node leads.
func (s calls) AwaitEvents(ctx context.Context, r *nodev1.AwaitEventsRequest) (*nodev1.AwaitEventsResponse, error) {
	found, last := s.c.readFor(ctx, s.c.events.Queues(), r, true)
	out := &nodev1.AwaitEventsResponse{Epoch: uint64(s.c.epoch), Last: last}
	for _, e := range found {
		out.Events = append(out.Events, toEvent(&e))
	}
	return out, nil
}
