package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quorate/quorate/id"
)

// AppendSnapshot adds the whole state to b and returns the longer slice. Equal states give
// equal bytes: everything is sorted.
func (c *Catalog) AppendSnapshot(b []byte) []byte { return c.view.AppendSnapshot(b) }

// AppendSnapshot adds the whole state to b, as Catalog.AppendSnapshot does.
func (v *View) AppendSnapshot(b []byte) []byte {
	if v.version > VersionFirst {
		b = append(b, snapshotVersion, byte(v.version))
	} else {
		b = append(b, snapshotOfFirst)
	}
	b = binary.AppendUvarint(b, v.index)
	b = binary.AppendVarint(b, v.now)
	b = binary.AppendUvarint(b, uint64(v.nextUID))
	b = binary.AppendUvarint(b, uint64(v.nodes.len()))
	for n := range v.Nodes() {
		b = appendNode(b, n)
		if v.version > VersionFirst {
			b = appendStore(b, n)
		}
	}
	b = binary.AppendUvarint(b, uint64(v.forgotten.len()))
	v.forgotten.each(func(n id.NodeID, f *forgotten) bool {
		b = appendString(b, n)
		if v.version > VersionFirst {
			b = appendString(binary.AppendUvarint(b, uint64(f.epoch)), f.store)
		}
		return true
	})
	if v.version > VersionFirst {
		b = binary.AppendUvarint(b, uint64(v.leaving.len()))
		v.leaving.each(func(n id.NodeID, since uint64) bool {
			b = binary.AppendUvarint(appendString(b, n), since)
			return true
		})
	}
	b = appendList(b, v.users, func(b []byte, u *User) []byte {
		if b = appendNewer(appendUser(b, u), u.each(), v.version); v.version >= VersionDeclarers {
			b = binary.AppendUvarint(b, u.since)
		}
		return b
	})
	b = appendList(b, v.parameters, appendParameter)
	b = binary.AppendUvarint(b, uint64(v.vhosts.len()))
	v.vhosts.each(func(_ string, h vhost) bool {
		b = appendVHost(b, h.rec)
		if v.version >= VersionUsers {
			b = appendBool(b, h.rec.RefuseUnknown)
		}
		b = appendNewer(b, h.rec.each(), v.version)
		b = h.appendSnapshot(b, v.version)
		return true
	})
	return b
}

// appendSnapshot writes the contents of a vhost in sorted order. Pre-declared exchanges are left
// out: newVHost makes them, and a later version may have others.
func (h vhost) appendSnapshot(b []byte, version Version) []byte {
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
		b = appendQueue(b, q, version)
		return true
	})
	b = binary.AppendUvarint(b, uint64(h.bindings.len()))
	h.bindings.each(func(_ string, x *Binding) bool {
		b = appendBinding(b, x)
		return true
	})
	b = appendList(b, h.policies, appendPolicy)
	b = appendList(b, h.operatorPolicies, appendPolicy)
	b = appendList(b, h.permissions, appendPermission)
	return appendList(b, h.topicPermissions, appendTopicPermission)
}

// appendList writes the number of values, then each in the order of the keys.
func appendList[V any](b []byte, t tree[string, V], add func([]byte, V) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(t.len()))
	t.each(func(_ string, v V) bool {
		b = add(b, v)
		return true
	})
	return b
}

// appendExchange writes a declared exchange; its vhost is the one that contains it.
func appendExchange(b []byte, x *Exchange) []byte {
	b = appendString(b, x.Name)
	b = appendString(b, x.Type)
	b = appendBool(b, x.Durable)
	b = appendBool(b, x.AutoDelete)
	b = appendBool(b, x.Internal)
	return appendTable(b, x.Arguments)
}

var errUnsorted = errors.New("out of order or repeated")

// finalized reads the finalised version of a snapshot.
func (r *reader) finalized() {
	r.machine = VersionFirst
	if r.form <= snapshotOfFirst {
		return
	}
	switch r.machine = Version(r.byte("finalised version")); {
	case r.err != nil:
	case r.machine > NewestVersion:
		r.fail("finalised version", fmt.Errorf("%w: version %d, this build reads version %d", ErrNewer, r.machine, NewestVersion))
	case r.machine <= VersionFirst:
		r.fail("finalised version", fmt.Errorf("version %d has another layout", r.machine))
	}
}

// restoreForgotten reads the nodes that were taken out.
func (v *View) restoreForgotten(r *reader) {
	last := id.NodeID("")
	for range r.count("forgotten nodes") {
		n := id.NodeID(r.string("forgotten node"))
		var f forgotten
		if r.form > snapshotOfFirst {
			f = forgotten{id.Epoch(r.uvarint("forgotten epoch")), id.StoreID(r.string("forgotten store"))}
		}
		_, present := v.nodes.get(n)
		if r.err == nil && (n <= last || present) {
			r.fail("forgotten node", errUnsorted)
		}
		if r.err != nil {
			return
		}
		last = n
		v.forgotten = v.forgotten.set(n, &f)
	}
}

// restoreLeaving reads the nodes whose member of the catalog group must leave.
func (v *View) restoreLeaving(r *reader) {
	last := id.NodeID("")
	for range r.count("leaving nodes") {
		n, since := id.NodeID(r.string("leaving node")), r.uvarint("leaving since")
		if r.err == nil && n <= last {
			r.fail("leaving node", errUnsorted)
		}
		if r.err != nil {
			return
		}
		last = n
		v.leaving = v.leaving.set(n, since)
	}
}

// appendStore writes what VersionStores added to nodes.
func appendStore(b []byte, n *Node) []byte {
	b = appendString(b, n.Store)
	b = appendBool(b, n.Vacant)
	b = appendString(b, n.Former)
	return binary.AppendUvarint(b, n.Out)
}

// store reads what appendStore wrote.
func (r *reader) store(n *Node) {
	n.Store, n.Vacant = id.StoreID(r.string("store")), r.bool("vacant")
	n.Former, n.Out = id.StoreID(r.string("former store")), r.uvarint("out")
	if r.err == nil && n.Vacant && n.Store != "" {
		r.fail("store", errors.New("has a store, and is vacant"))
	}
}

// Restore replaces the state with that of a snapshot. After an error the state is unchanged. It
// refuses bytes that AppendSnapshot cannot have written. The error is ErrNewer if another build can
// read them.
func (c *Catalog) Restore(b []byte) error {
	r := reader{what: "snapshot", b: b}
	r.version(snapshotWithoutEnd, snapshotVersion)
	r.finalized()
	v := &View{
		version: r.machine,
		index:   r.uvarint("index"),
		now:     r.varint("time"),
		nextUID: id.QueueUID(r.uvarint("next uid")),
	}
	last := id.NodeID("")
	for range r.count("nodes") {
		n := r.node()
		if r.form > snapshotOfFirst {
			r.store(&n)
		}
		if r.err == nil && n.ID <= last {
			r.fail("node", errUnsorted)
		}
		if r.err != nil {
			break
		}
		last = n.ID
		v.nodes = v.nodes.set(n.ID, &n)
	}
	v.restoreForgotten(&r)
	if r.form > snapshotOfFirst {
		v.restoreLeaving(&r)
	}
	v.users = restoreList(&r, "users", func() User {
		u := r.user()
		if r.readNewer(u.each()); r.machine >= VersionDeclarers {
			u.since = r.uvarint("user since")
		}
		return u
	}, func(u *User) string { return u.Name }, func(u *User) *Error {
		return u.check(Error{Kind: "user", Name: u.Name})
	})
	v.parameters = restoreList(&r, "parameters", r.parameter, (*Parameter).identity, nil)
	lastName := ""
	for range r.count("vhosts") {
		rec := r.vhostRecord()
		if r.machine >= VersionUsers {
			rec.RefuseUnknown = r.bool("refuse unknown")
		}
		r.readNewer(rec.each())
		if r.err == nil && rec.Name <= lastName {
			r.fail("vhost", errUnsorted)
		}
		if err := rec.check(Error{Kind: "vhost", Name: rec.Name}); r.err == nil && err != nil {
			r.fail("vhost", err)
		}
		h := r.vhost(v, &rec)
		if r.err != nil {
			break
		}
		lastName = rec.Name
		v.vhosts = v.vhosts.set(rec.Name, h)
	}
	if err := r.end(); err != nil {
		return err
	}
	v.keepExchanges(c.view)
	c.view = v
	return nil
}

// restoreList reads a list that is sorted by identity, checking each element unless check
// is nil.
func restoreList[V any](r *reader, part string, read func() V, identity func(*V) string, check func(*V) *Error) (t tree[string, *V]) {
	last := ""
	for i := range r.count(part) {
		x := read()
		if r.err != nil {
			return t
		}
		ident := identity(&x)
		if i > 0 && ident <= last {
			r.fail(part, errUnsorted)
			return t
		}
		if check != nil {
			if err := check(&x); err != nil {
				r.fail(part, err)
				return t
			}
		}
		last = ident
		t = t.set(ident, &x)
	}
	return t
}

// settings reads what a vhost has besides exchanges, queues and bindings.
func (r *reader) settings(v *View, h vhost) vhost {
	checkPolicy := func(operator bool) func(*Policy) *Error {
		return func(p *Policy) *Error {
			e := p.about()
			if p.VHost != h.rec.Name || p.Operator != operator {
				e.Reason = "stands in the wrong list"
				return &e
			}
			return p.check(e)
		}
	}
	checkUser := func(kind, user, vhost string) *Error {
		if _, ok := v.users.get(user); !ok || vhost != h.rec.Name {
			return &Error{Kind: kind, Name: user, VHost: vhost, Reason: "has no user, or another vhost"}
		}
		return nil
	}
	name := func(p *Policy) string { return p.Name }
	h.policies = restoreList(r, "policies", r.policy, name, checkPolicy(false))
	h.operatorPolicies = restoreList(r, "operator policies", r.policy, name, checkPolicy(true))
	h.permissions = restoreList(r, "permissions", r.permission, func(p *Permission) string { return p.User },
		func(p *Permission) *Error { return checkUser("permission", p.User, p.VHost) })
	h.topicPermissions = restoreList(r, "topic permissions", r.topicPermission, (*TopicPermission).identity,
		func(p *TopicPermission) *Error { return checkUser("topic permission", p.User, p.VHost) })
	return h
}

// vhost reads what vhost.appendSnapshot wrote. It demands ascending order, which also excludes
// repeats, and UIDs that nextUID has passed: the bytes may be damaged and must not become a state
// that no sequence of commands could reach.
func (r *reader) vhost(v *View, rec *VHost) vhost {
	h, name := newVHost(rec), rec.Name
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
		v.countDeclared(q, 1)
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
	return r.settings(v, h)
}

// restoreBinding adds a binding as View.bind does, but fails the snapshot where its exchange or
// destination is missing.
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
	if err := x.index.checkBinding(Error{Kind: "binding", Name: b.Source, VHost: b.VHost}, (*Bind)(b)); err != nil {
		r.fail("binding", err)
		return h
	}
	h.bindings = h.bindings.set(ident, b)
	h.byDestination = h.byDestination.set(b.destinationIdentity(), b)
	h.exchanges = h.exchanges.set(b.Source, x.with(ident, b, t))
	return h
}

// exchange reads an exchange and checks type and arguments, because newExchange relies on them.
func (r *reader) exchange(vhost string) *Exchange {
	x := &Exchange{
		VHost: vhost, Name: r.string("exchange"), Type: ExchangeType(r.string("exchange type")),
		Durable: r.bool("exchange durable"), AutoDelete: r.bool("exchange auto_delete"),
		Internal: r.bool("exchange internal"), Arguments: r.table("exchange arguments"),
	}
	t := typeNamed(x.Type)
	switch {
	case r.err != nil:
	case t == nil:
		r.fail("exchange type", fmt.Errorf("unknown type %q", x.Type))
	default:
		if _, err := t.empty(Error{Kind: "exchange", Name: x.Name, VHost: vhost}, x.Arguments); err != nil {
			r.fail("exchange arguments", err)
		}
	}
	return x
}
