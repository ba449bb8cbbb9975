package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/id"
)

// AppendSnapshot adds the whole state to b and returns the longer slice. Equal states give
// equal bytes: everything is sorted.
func (c *Catalog) AppendSnapshot(b []byte) []byte { return c.view.AppendSnapshot(b) }

// AppendSnapshot adds the whole state to b, as Catalog.AppendSnapshot does.
func (v *View) AppendSnapshot(b []byte) []byte {
	b = append(b, snapshotVersion)
	b = binary.AppendUvarint(b, v.index)
	b = binary.AppendVarint(b, v.now)
	b = binary.AppendUvarint(b, uint64(v.nextUID))
	b = binary.AppendUvarint(b, uint64(v.nodes.len()))
	for n := range v.Nodes() {
		b = appendNode(b, n)
	}
	b = binary.AppendUvarint(b, uint64(v.vhosts.len()))
	v.vhosts.each(func(name string, h vhost) bool {
		b = appendString(b, name)
		b = h.appendSnapshot(b)
		return true
	})
	return b
}

func (h vhost) appendSnapshot(b []byte) []byte {
	declared := 0
	h.exchanges.each(func(_ string, x *exchange) bool {
		if !x.rec.Predeclared {
			declared++
		}
		return true
	})
	b = binary.AppendUvarint(b, uint64(declared))
	h.exchanges.each(func(_ string, x *exchange) bool {
		if !x.rec.Predeclared {
			b = appendExchange(b, x.rec)
		}
		return true
	})
	b = binary.AppendUvarint(b, uint64(h.queues.len()))
	h.queues.each(func(_ string, q *QueueRecord) bool {
		b = appendQueue(b, q)
		return true
	})
	b = binary.AppendUvarint(b, uint64(h.bindings.len()))
	h.bindings.each(func(_ string, x *Binding) bool {
		b = appendBinding(b, x)
		return true
	})
	return b
}

func appendExchange(b []byte, x *Exchange) []byte {
	b = appendString(b, x.Name)
	b = appendString(b, x.Type)
	b = appendBool(b, x.Durable)
	b = appendBool(b, x.AutoDelete)
	b = appendBool(b, x.Internal)
	return appendTable(b, x.Arguments)
}

func appendQueue(b []byte, q *QueueRecord) []byte {
	b = appendString(b, q.Name)
	b = binary.AppendUvarint(b, uint64(q.UID))
	b = appendString(b, q.Type)
	b = appendBool(b, q.Durable)
	b = appendBool(b, q.Exclusive)
	b = appendBool(b, q.AutoDelete)
	b = appendTable(b, q.Arguments)
	b = appendNodeIDs(b, q.Members)
	b = appendString(b, q.Leader)
	b = binary.AppendVarint(b, q.CreatedMs)
	b = binary.AppendUvarint(b, q.Index)
	b = binary.AppendUvarint(b, uint64(q.Size))
	b = binary.AppendUvarint(b, q.Changed)
	b = appendBool(b, q.Change != nil)
	if g := q.Change; g != nil {
		b = binary.AppendUvarint(b, g.ID)
		b = appendString(b, g.Join)
		b = appendString(b, g.Leave)
		b = binary.AppendUvarint(b, uint64(g.Size))
		b = appendBool(b, g.Cancelled)
	}
	return b
}

var errUnsorted = errors.New("out of order or repeated")

// Restore replaces the state by that of a snapshot. After an error the state is as before.
// Bytes that AppendSnapshot, of this build or of one that wrote version 1, cannot have written are refused.
func (c *Catalog) Restore(b []byte) error {
	r := reader{what: "snapshot", b: b}
	r.old = len(b) > 0 && b[0] == snapshotV1
	if r.old {
		r.version(snapshotV1)
	} else {
		r.version(snapshotVersion)
	}
	v := &View{
		index:   r.uvarint("index"),
		now:     r.varint("time"),
		nextUID: id.QueueUID(r.uvarint("next uid")),
	}
	last := id.NodeID("")
	for range r.count("nodes") {
		n := r.node()
		if r.err == nil && n.ID <= last {
			r.fail("node", errUnsorted)
		}
		if r.err != nil {
			break
		}
		last = n.ID
		v.nodes = v.nodes.set(n.ID, &n)
	}
	lastName := ""
	for range r.count("vhosts") {
		name := r.string("vhost")
		if r.err == nil && name <= lastName {
			r.fail("vhost", errUnsorted)
		}
		h := r.vhost(v, name)
		if r.err != nil {
			break
		}
		lastName = name
		v.vhosts = v.vhosts.set(name, h)
	}
	if err := r.end(); err != nil {
		return err
	}
	c.view = v
	return nil
}

func (r *reader) vhost(v *View, name string) vhost {
	h := newVHost(name)
	last := ""
	for range r.count("exchanges") {
		x := r.exchange(name)
		if _, predeclared := h.exchanges.get(x.Name); r.err == nil && (predeclared || x.Name <= last) {
			r.fail("exchange", errUnsorted)
		}
		if r.err != nil {
			return h
		}
		last = x.Name
		h.exchanges = h.exchanges.set(x.Name, newExchange(x))
	}
	last = ""
	for range r.count("queues") {
		q := r.queue(name)
		_, repeated := v.queues.get(q.UID)
		if r.err == nil && (repeated || q.UID < id.FirstQueueUID || q.UID >= v.nextUID || q.Name <= last) {
			r.fail("queue", errUnsorted)
		}
		if r.err != nil {
			return h
		}
		last = q.Name
		h.queues = h.queues.set(q.Name, q)
		v.queues = v.queues.set(q.UID, q)
	}
	last = ""
	for range r.count("bindings") {
		b := r.binding()
		ident := b.identity()
		if r.err == nil && (b.VHost != name || ident <= last) {
			r.fail("binding", errUnsorted)
		}
		if r.err == nil {
			h = r.restoreBinding(h, ident, &b)
		}
		if r.err != nil {
			return h
		}
		last = ident
	}
	return h
}

func (r *reader) restoreBinding(h vhost, ident string, b *Binding) vhost {
	x, ok := h.exchanges.get(b.Source)
	if !ok || b.Source == "" {
		r.fail("binding", fmt.Errorf("no source exchange %q", b.Source))
		return h
	}
	t, err := h.target((*Bind)(b))
	if err != nil {
		r.fail("binding", err)
		return h
	}
	if err := x.rec.checkBinding(Error{Kind: "binding", Name: b.Source, VHost: b.VHost}, (*Bind)(b)); err != nil {
		r.fail("binding", err)
		return h
	}
	h.bindings = h.bindings.set(ident, b)
	h.byDestination = h.byDestination.set(b.destinationIdentity(), b)
	h.exchanges = h.exchanges.set(b.Source, x.with(ident, b, t))
	return h
}

func (r *reader) exchange(vhost string) *Exchange {
	x := &Exchange{
		VHost: vhost, Name: r.string("exchange"), Type: ExchangeType(r.string("exchange type")),
		Durable: r.bool("exchange durable"), AutoDelete: r.bool("exchange auto_delete"),
		Internal: r.bool("exchange internal"), Arguments: r.table("exchange arguments"),
	}
	switch {
	case r.err != nil:
	case !slices.Contains(exchangeTypes(), x.Type):
		r.fail("exchange type", fmt.Errorf("unknown type %q", x.Type))
	case x.Type == ExchangeConsistentHash:
		if _, err := newHashInput(Error{Kind: "exchange", Name: x.Name, VHost: vhost}, x.Arguments); err != nil {
			r.fail("exchange arguments", err)
		}
	}
	return x
}

func (r *reader) queue(vhost string) *QueueRecord {
	q := &QueueRecord{
		VHost: vhost, Name: r.string("queue"), UID: id.QueueUID(r.uvarint("queue uid")),
		Type: QueueType(r.string("queue type")), Durable: r.bool("queue durable"),
		Exclusive: r.bool("queue exclusive"), AutoDelete: r.bool("queue auto_delete"),
		Arguments: r.table("queue arguments"), Members: r.nodeIDs("queue members"),
		Leader: id.NodeID(r.string("queue leader")), CreatedMs: r.varint("queue created"),
		Index: r.uvarint("queue index"),
	}
	if r.old {
		return q
	}
	q.Size, q.Changed = r.size("queue size"), r.uvarint("queue changed")
	if r.bool("queue change") {
		q.Change = &MemberChange{
			ID: r.uvarint("change"), Join: id.NodeID(r.string("change joins")), Leave: id.NodeID(r.string("change leaves")),
			Size: r.size("change size"), Cancelled: r.bool("change cancelled"),
		}
	}
	return q
}
