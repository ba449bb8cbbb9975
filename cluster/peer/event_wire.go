package peer

import (
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

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
