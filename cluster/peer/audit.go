package peer

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// auditKey names a list of a node in an Cursor.
func auditKey(n id.NodeID, list event.AuditList) string {
	return string(n) + "/" + strconv.Itoa(int(list))
}

// AuditTail returns the records that the nodes still have, those of one list of a node in order, with
// Missed for those that they do not keep any more; where they end; and the nodes that did not
// answer.
func (w *Events) AuditTail(ctx context.Context) (all []event.Event, at Cursor, silent []id.NodeID, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if at, err = w.eventsNow(ctx); err != nil {
		return nil, at, nil, err
	}
	at.Audit = map[string]Position{}
	for _, list := range event.AuditLists() {
		l := w.journal.Audit(list)
		found := named(w.peers.Node, l.Read(0, 2*event.AuditKeep))
		all = append(all, found...)
		at.Audit[auditKey(w.peers.Node, list)] = Position{w.epoch, lastOf(found)}
		err = w.peers.Ask(ctx, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
			found, pos, err := auditOf(ctx, n, node, list)
			return func() error {
				all = append(all, found...)
				at.Audit[auditKey(n, list)] = pos
				return nil
			}, err
		}, func(n id.NodeID) {
			if list == event.AuditOfUse {
				silent = append(silent, n)
			}
		})
		if err != nil {
			return nil, at, nil, err
		}
	}
	return all, at, silent, nil
}

// eventsNow is where all events but audit records stand.
func (w *Events) eventsNow(ctx context.Context) (Cursor, error) {
	at := w.beginEvents(ctx, nil, Choice{Events: true})
	return at, ctx.Err()
}

// auditOf returns all of a list of another node.
func auditOf(ctx context.Context, n id.NodeID, node nodev1.NodeClient, list event.AuditList) (all []event.Event, at Position, err error) {
	for {
		r, err := node.AwaitAudit(ctx, &nodev1.AwaitAuditRequest{Epoch: uint64(at.Epoch), After: at.Seq, List: uint32(list)})
		if err != nil {
			return nil, at, err
		}
		at = Position{id.Epoch(r.GetEpoch()), r.GetLast()}
		if len(r.GetRecords()) == 0 {
			return all, at, nil
		}
		for _, rec := range r.GetRecords() {
			all = append(all, fromRecord(n, rec))
		}
	}
}

// lastOf is 0 if there are none.
func lastOf(events []event.Event) uint64 {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Seq
}

// named has events told by a node that have none: those that stand for others.
func named(n id.NodeID, events []event.Event) []event.Event {
	for i := range events {
		if events[i].Node == "" {
			events[i].Node = n
		}
	}
	return events
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

// position is where another node stands in a log of this one.
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

// toEvent leaves the node out: the receiver knows whom it asked.
func toEvent(e *event.Event) *nodev1.Event {
	return &nodev1.Event{
		Seq: e.Seq, AtMs: e.AtMs, Kind: string(e.Kind), Vhost: e.VHost, Name: e.Name, Cause: e.Cause, Detail: e.Detail, Count: e.Count,
	}
}

// fromEvent puts in the node that was asked.
func fromEvent(n id.NodeID, e *nodev1.Event) event.Event {
	return event.Event{
		Seq: e.GetSeq(), AtMs: e.GetAtMs(), Node: n, Kind: event.Kind(e.GetKind()), VHost: e.GetVhost(), Name: e.GetName(),
		Cause: e.GetCause(), Detail: e.GetDetail(), Count: e.GetCount(),
	}
}

// toRecord writes an event that stands for lost records without the fields of a record.
func toRecord(e *event.Event) *nodev1.AuditRecord {
	out := &nodev1.AuditRecord{Event: toEvent(e)}
	a := e.Audit
	if a == nil { // it stands for others
		return out
	}
	out.User, out.Mechanism, out.Protocol, out.Address, out.Client = a.User, a.Mechanism, a.Protocol, a.Address, a.Client
	out.Operation, out.Object, out.Outcome = a.Operation, a.Object, a.Outcome
	for _, x := range a.Changes {
		out.Changes = append(out.Changes, &nodev1.AuditChange{Field: x.Field, Before: x.Before, After: x.After})
	}
	return out
}

// fromRecord is the reverse of toRecord.
func fromRecord(n id.NodeID, r *nodev1.AuditRecord) event.Event {
	e := fromEvent(n, r.GetEvent())
	if e.Kind != event.Audit {
		return e
	}
	a := &event.Audited{
		User: r.GetUser(), Mechanism: r.GetMechanism(), Protocol: r.GetProtocol(), Address: r.GetAddress(), Client: r.GetClient(),
		Operation: r.GetOperation(), Object: r.GetObject(), Outcome: r.GetOutcome(),
	}
	for _, x := range r.GetChanges() {
		a.Changes = append(a.Changes, event.Change{Field: x.GetField(), Before: x.GetBefore(), After: x.GetAfter()})
	}
	e.Audit = a
	return e
}
