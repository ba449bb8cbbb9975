package peer

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

const (

	// eventRetry is the wait before a node that did not answer is asked for events again.
	eventRetry = time.Second
)

// Watch calls report with what is chosen of all nodes, that of one node in order, until it
// fails or ctx ends: what is behind a cursor, or from now on if it is nil. The first call has
// no events. While report runs nothing is read; what the nodes do not keep that long is reported
// as missed.
func (w *Events) Watch(ctx context.Context, from *Cursor, what Choice, report func([]event.Event, Cursor) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.peers.Life, cancel)()
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel() // before the wait
	at := w.beginEvents(ctx, from, what)
	if err := report(nil, at.clone()); err != nil {
		return err
	}
	news := make(chan eventsOf)
	w.readOwn(ctx, &sources, what, &at, news)
	asked := map[id.NodeID]bool{w.peers.Node: true}
	for {
		changed := w.changed()
		for n := range w.peers.View().Nodes() {
			if asked[n.ID] {
				continue
			}
			asked[n.ID] = true
			w.readOther(ctx, &sources, n.ID, what, &at, from != nil, news)
		}
		select {
		case s := <-news:
			at.passed(&s)
			if err := report(s.events, at.clone()); err != nil {
				return err
			}
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readOwn begins to read this node's logs.
func (w *Events) readOwn(ctx context.Context, sources *sync.WaitGroup, what Choice, at *Cursor, news chan<- eventsOf) {
	read := func(l *event.Log, s eventsOf, after uint64) {
		sources.Go(func() { w.readLog(ctx, l, s, after, news) })
	}
	if what.Events {
		read(w.journal.Catalog(), eventsOf{}, at.Catalog)
		read(w.journal.Queues(), eventsOf{node: w.peers.Node}, at.Nodes[w.peers.Node].Seq)
	}
	if what.Audit {
		for _, list := range event.AuditLists() {
			key := auditKey(w.peers.Node, list)
			read(w.journal.Audit(list), eventsOf{node: w.peers.Node, key: key}, at.Audit[key].Seq)
		}
	}
}

// readOther begins to read those of another node.
func (w *Events) readOther(ctx context.Context, sources *sync.WaitGroup, n id.NodeID, what Choice, at *Cursor, all bool, news chan<- eventsOf) {
	read := func(pos Position, known bool, ask askLog) {
		sources.Go(func() { w.readPeer(ctx, ask, pos, known || all, news) })
	}
	if what.Events {
		pos, known := at.Nodes[n]
		read(pos, known, func(at Position, known bool) (eventsOf, error) { return w.askEvents(ctx, n, at, known) })
	}
	if what.Audit {
		for _, list := range event.AuditLists() {
			pos, known := at.Audit[auditKey(n, list)]
			read(pos, known, func(at Position, known bool) (eventsOf, error) { return w.askAudit(ctx, n, list, at, known) })
		}
	}
}

// beginEvents completes a cursor with where the logs stand.
func (w *Events) beginEvents(ctx context.Context, from *Cursor, what Choice) Cursor {
	if from != nil {
		at := from.clone()
		if own := at.Nodes[w.peers.Node]; own.Epoch != w.epoch {
			at.Nodes[w.peers.Node] = Position{Epoch: w.epoch}
		}
		for _, list := range event.AuditLists() {
			if key := auditKey(w.peers.Node, list); at.Audit[key].Epoch != w.epoch {
				at.Audit[key] = Position{Epoch: w.epoch}
			}
		}
		return at
	}
	at := Cursor{Catalog: w.journal.Catalog().Last(), Nodes: map[id.NodeID]Position{
		w.peers.Node: {Epoch: w.epoch, Seq: w.journal.Queues().Last()},
	}, Audit: map[string]Position{}}
	short, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	// A node that does not answer is asked again when it does.
	if what.Events {
		_ = w.peers.Ask(short, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
			r, err := node.AwaitEvents(ctx, &nodev1.AwaitEventsRequest{Now: true})
			return func() error {
				at.Nodes[n] = Position{Epoch: id.Epoch(r.GetEpoch()), Seq: r.GetLast()}
				return nil
			}, err
		}, func(id.NodeID) {})
	}
	if what.Audit {
		w.beginAudit(short, &at)
	}
	return at
}

// beginAudit completes a cursor with where the lists of audit records stand.
func (w *Events) beginAudit(ctx context.Context, at *Cursor) {
	for _, list := range event.AuditLists() {
		at.Audit[auditKey(w.peers.Node, list)] = Position{Epoch: w.epoch, Seq: w.journal.Audit(list).Last()}
		_ = w.peers.Ask(ctx, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
			r, err := node.AwaitAudit(ctx, &nodev1.AwaitAuditRequest{Now: true, List: uint32(list)})
			return func() error {
				at.Audit[auditKey(n, list)] = Position{Epoch: id.Epoch(r.GetEpoch()), Seq: r.GetLast()}
				return nil
			}, err
		}, func(id.NodeID) {})
	}
}

// readLog hands on what a log of this node gets; s says which one it is.
func (w *Events) readLog(ctx context.Context, l *event.Log, s eventsOf, after uint64, news chan<- eventsOf) {
	for {
		found := l.Await(ctx, after, eventBatch)
		if len(found) == 0 {
			return // ctx has ended
		}
		after = found[len(found)-1].Seq
		s.at, s.events = Position{w.epoch, after}, found
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
type askLog func(at Position, known bool) (eventsOf, error)

// readPeer hands on what another node sends. Without a known position it begins with what
// happens from now on.
func (w *Events) readPeer(ctx context.Context, ask askLog, at Position, known bool, news chan<- eventsOf) {
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
