package peer

import (
	"context"

	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// AuditTail returns the records that the nodes still have, those of one list of a node in order, with Missed for
// those that they no longer keep; where they end; and the nodes that did not answer.
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
