package peer

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// eventBatch bounds the events of one answer.
const eventBatch = 256

// Events are those of all nodes, and their audit records. Its methods may be called concurrently.
type Events struct {
	peers   *Peers
	journal *event.Journal
	epoch   id.Epoch
	changed func() <-chan struct{}
}

// NewEvents returns those of all nodes; the journal has this node's in this life. changed returns
// a channel that is closed when the cluster's nodes may have changed.
func NewEvents(peers *Peers, journal *event.Journal, epoch id.Epoch, changed func() <-chan struct{}) *Events {
	return &Events{peers: peers, journal: journal, epoch: epoch, changed: changed}
}

// Cursor is a place in the events of all nodes.
type Cursor struct {
	Catalog uint64                 `json:"c"`
	Nodes   map[id.NodeID]Position `json:"n"`
	Audit   map[string]Position    `json:"a,omitempty"` // by auditKey
}

// Position is the last event of a life of a node.
type Position struct {
	Epoch id.Epoch `json:"e"`
	Seq   uint64   `json:"s"`
}

// clone copies the maps: a caller keeps its cursor while the next one grows.
func (k *Cursor) clone() Cursor {
	out := Cursor{Catalog: k.Catalog, Nodes: make(map[id.NodeID]Position, len(k.Nodes)), Audit: make(map[string]Position, len(k.Audit))}
	for n, p := range k.Nodes {
		out.Nodes[n] = p
	}
	for n, p := range k.Audit {
		out.Audit[n] = p
	}
	return out
}

// passed moves behind what a source sent.
func (k *Cursor) passed(s *eventsOf) {
	switch {
	case s.key != "":
		k.Audit[s.key] = s.at
	case s.node == "":
		k.Catalog = s.at.Seq
	default:
		k.Nodes[s.node] = s.at
	}
}

// Choice is what is watched.
type Choice struct {
	Events bool // all but audit records
	Audit  bool
}

// eventsOf is what one source sent; node is "" for the catalog.
type eventsOf struct {
	node   id.NodeID
	key    string // of audit records: auditKey; else ""
	at     Position
	events []event.Event
}

// auditKey names a list of a node in an Cursor.
func auditKey(n id.NodeID, list event.AuditList) string {
	return string(n) + "/" + strconv.Itoa(int(list))
}

// askEvents waits until the peer has events after at, or ctx ends. A peer without a known position begins
// now.
func (w *Events) askEvents(ctx context.Context, n id.NodeID, at Position, known bool) (eventsOf, error) {
	s := eventsOf{node: n}
	node, err := w.peers.Client(n)
	if err != nil {
		return s, err
	}
	r, err := node.AwaitEvents(ctx, &nodev1.AwaitEventsRequest{Epoch: uint64(at.Epoch), After: at.Seq, Now: !known})
	if err != nil {
		return s, err
	}
	s.at = Position{id.Epoch(r.GetEpoch()), r.GetLast()}
	for _, e := range r.GetEvents() {
		s.events = append(s.events, fromEvent(n, e))
	}
	return s, nil
}

// askAudit asks another node for records behind a position, and waits a while for them.
func (w *Events) askAudit(ctx context.Context, n id.NodeID, list event.AuditList, at Position, known bool) (eventsOf, error) {
	s := eventsOf{node: n, key: auditKey(n, list)}
	node, err := w.peers.Client(n)
	if err != nil {
		return s, err
	}
	r, err := node.AwaitAudit(ctx, &nodev1.AwaitAuditRequest{
		Epoch: uint64(at.Epoch), After: at.Seq, Now: !known, List: uint32(list), Wait: true,
	})
	if err != nil {
		return s, err
	}
	s.at = Position{id.Epoch(r.GetEpoch()), r.GetLast()}
	for _, rec := range r.GetRecords() {
		s.events = append(s.events, fromRecord(n, rec))
	}
	return s, nil
}

// AwaitEvents returns events of the queues that this node leads.
func (w *Events) AwaitEvents(ctx context.Context, r *nodev1.AwaitEventsRequest) (*nodev1.AwaitEventsResponse, error) {
	found, last := w.readFor(ctx, w.journal.Queues(), r, true)
	out := &nodev1.AwaitEventsResponse{Epoch: uint64(w.epoch), Last: last}
	for _, e := range found {
		out.Events = append(out.Events, toEvent(&e))
	}
	return out, nil
}

// AwaitAudit returns audit records of this node.
func (w *Events) AwaitAudit(ctx context.Context, r *nodev1.AwaitAuditRequest) (*nodev1.AwaitAuditResponse, error) {
	log := w.journal.Audit(event.AuditOfUse)
	if r.GetList() == uint32(event.AuditOfAdministration) {
		log = w.journal.Audit(event.AuditOfAdministration)
	}
	found, last := w.readFor(ctx, log, r, r.GetWait())
	out := &nodev1.AwaitAuditResponse{Epoch: uint64(w.epoch), Last: last}
	for _, e := range found {
		out.Records = append(out.Records, toRecord(&e))
	}
	return out, nil
}

// position is another node's position in a log of this one.
type position interface {
	GetEpoch() uint64
	GetAfter() uint64
	GetNow() bool
}

// readFor reads a log for another node from where it stands, and waits for the first event if it
// is to; last is where it stands then.
func (w *Events) readFor(ctx context.Context, log *event.Log, from position, wait bool) (found []event.Event, last uint64) {
	if from.GetNow() {
		return nil, log.Last()
	}
	after := from.GetAfter()
	if id.Epoch(from.GetEpoch()) != w.epoch {
		after = 0
	}
	found = w.awaitLog(ctx, log, after, wait)
	if len(found) == 0 {
		return nil, after
	}
	return found, lastOf(found)
}

// awaitLog reads a log, and waits for the first event if it is to.
func (w *Events) awaitLog(ctx context.Context, log *event.Log, after uint64, wait bool) []event.Event {
	if !wait {
		return log.Read(after, eventBatch)
	}
	short, cancel := context.WithTimeout(ctx, awaitAtMost)
	defer cancel()
	defer context.AfterFunc(w.peers.Life, cancel)()
	return log.Await(short, after, eventBatch)
}

// named gives a node's name to events from it that have none: those that stand for others.
func named(n id.NodeID, events []event.Event) []event.Event {
	for i := range events {
		if events[i].Node == "" {
			events[i].Node = n
		}
	}
	return events
}

// lastOf is 0 if there are none.
func lastOf(events []event.Event) uint64 {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Seq
}
