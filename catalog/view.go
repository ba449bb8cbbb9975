package catalog

import (
	"iter"
	"slices"
	"strings"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// View is the state of the catalog at one index. It never changes; what its methods
// return must not be changed either.
type View struct {
	version Version // finalised
	index   uint64
	now     int64 // latest time of a command, milliseconds since the Unix epoch
	nextUID id.QueueUID
	vhosts  tree[string, vhost]
	queues  tree[id.QueueUID, *QueueRecord]
	nodes   tree[id.NodeID, *Node]
	// forgotten are nodes that were taken out: none may return with the store that it had.
	forgotten tree[id.NodeID, *forgotten]
	// leaving are nodes whose member of the catalog group must leave because its log or store is lost,
	// with the index since which. Until then no empty member may begin under the id.
	leaving tree[id.NodeID, uint64]
	users   tree[string, *User]
	// declared counts, by user, the queues of which it is DeclarerOf; users without any are not in it.
	declared tree[string, int]
	// parameters by vhost, component and name; global ones have the vhost "".
	parameters tree[string, *Parameter]
}

// vhost is one namespace (VH-1). Its trees are replaced, never changed.
type vhost struct {
	rec       *VHost
	exchanges tree[string, *exchange]
	queues    tree[string, *QueueRecord]
	// bindings is sorted by identity, so by source first; byDestination has the same
	// bindings sorted by destination.
	bindings, byDestination    tree[string, *Binding]
	policies, operatorPolicies tree[string, *Policy]
	permissions                tree[string, *Permission]      // by user
	topicPermissions           tree[string, *TopicPermission] // by user and exchange
}

// QueueRecord is a declared queue.
type QueueRecord struct {
	UID         id.QueueUID
	VHost, Name string
	Type        QueueType
	Durable     bool
	Exclusive   bool
	AutoDelete  bool
	Arguments   message.Table // as declared
	Members     []id.NodeID
	Leader      id.NodeID // preferred, not necessarily the one that leads
	CreatedMs   int64     // time of the declare command
	Index       uint64    // of the command that last changed the record
	// Owner is the connection that an exclusive queue belongs to; zero for others.
	Owner Owner
	// Home is the life of the node in which a transient queue was declared: the queue ends with it
	// . 0 for durable queues.
	Home id.Epoch
	// Size is the number of members that an operator has chosen; 0: as the arguments ask.
	Size int
	// Changed is the index of the command that began the newest change of members. While it is 0, the
	// members are those of the declaration, and one that has no log yet may write the group's first
	// configuration; after that only one that cannot have forgotten the queue (FoundersSince).
	Changed uint64
	Change  *MemberChange // the change under way; nil: none
	// DrainDeleting is the index of the command that began the queue's deletion; 0: it is not being
	// deleted. Clients may no longer use such a queue, and its leader deletes it once it is empty.
	DrainDeleting uint64
	// DeclaredBy is the user that declared the queue; "": nobody was logged in, or the queue is older
	// than VersionDeclarers. DeclarerOf decides whether it counts towards the user's limits (VH-17).
	DeclaredBy string
	// declarerSince is that user's since; 0 also if it had no record.
	declarerSince uint64
	// declared is the index of the command that declared the queue, and founders are the members that it named. A catalog
	// has both only if it has applied that command: snapshots do not have them.
	declared uint64
	founders []id.NodeID
}

// FoundersSince returns the members that the queue was declared with, if it was declared behind that index of the catalog's
// log; nil: before, or this catalog does not know when.
func (q *QueueRecord) FoundersSince(index uint64) []id.NodeID {
	if q.declared <= index {
		return nil
	}
	return q.founders
}

// MemberChange is a change of a queue's members that is under way.
type MemberChange struct {
	ID        uint64    // index of the command that began it
	Join      id.NodeID // has a member without a vote until it has joined; "": none, or done
	Leave     id.NodeID // "": none, or done. The same as Join: the old member leaves first
	Size      int       // as BeginMemberChange
	Cancelled bool      // undo what can be undone
}

// Holds reports whether a node should hold a member of the queue's group: it is a member, or it is
// joining.
func (q *QueueRecord) Holds(n id.NodeID) bool {
	return slices.Contains(q.Members, n) || q.Change != nil && q.Change.Join == n && q.Change.Leave != n
}

// Exchange is a declared or pre-declared exchange. Views have the same record for as long as it exists, and
// Restore keeps it.
type Exchange struct {
	VHost, Name string
	Type        ExchangeType
	Durable     bool
	AutoDelete  bool
	Internal    bool
	Arguments   message.Table // as declared
	Predeclared bool          // EX-2: cannot be deleted
}

// AlternateExchange returns the argument alternate-exchange (EX-12).
func (x *Exchange) AlternateExchange() (name string, ok bool) {
	v, ok := x.Arguments.Get(argAlternateExchange)
	if !ok {
		return "", false
	}
	return v.AsString()
}

// Binding leads from an exchange to a queue or to another exchange (EX-13).
type Binding struct {
	VHost, Source   string
	DestinationKind DestinationKind
	Destination     string
	Key             string
	Arguments       message.Table // as first bound
}

// Node is a registered node.
type Node struct {
	ID            id.NodeID
	Address       string // host:port for other nodes
	ClientAddress string // host:port for clients
	Epoch         id.Epoch
	// Store is the store of the node's data directory; "": it has registered without one.
	Store id.StoreID
	// Vacant reports that the node's store was given up (ReplaceNode): a fresh store may take its
	// place, and Former may never return.
	Vacant bool
	Former id.StoreID
	// Out is the index at which a former member of the catalog group was last seen to have left: an
	// empty member may begin after it; 0: never.
	Out uint64
}

// forgotten is the record of a node that was taken out.
type forgotten struct {
	epoch id.Epoch // its last epoch; 0: unknown
	store id.StoreID
}

// Index returns the log index of the last command in the view.
func (v *View) Index() uint64 { return v.index }

// Now returns the latest time of a command, in milliseconds since the Unix epoch.
func (v *View) Now() int64 { return v.now }

// Queue looks a queue up by name.
func (v *View) Queue(vhost, name string) (*QueueRecord, bool) {
	h, ok := v.vhosts.get(vhost)
	if !ok {
		return nil, false
	}
	return h.queues.get(name)
}

// QueueByUID looks a queue up by UID.
func (v *View) QueueByUID(uid id.QueueUID) (*QueueRecord, bool) { return v.queues.get(uid) }

// NextQueueUID returns the UID that the next new queue will get; UIDs rise.
func (v *View) NextQueueUID() id.QueueUID { return v.nextUID }

// QueueCount returns the number of queues in all vhosts.
func (v *View) QueueCount() int { return v.queues.len() }

// Queues goes over all queues, sorted by vhost and name.
func (v *View) Queues() iter.Seq[*QueueRecord] {
	return func(yield func(*QueueRecord) bool) {
		v.vhosts.each(func(_ string, h vhost) bool {
			more := true
			h.queues.each(func(_ string, q *QueueRecord) bool {
				more = yield(q)
				return more
			})
			return more
		})
	}
}

// Exchange looks an exchange up by name; the default exchange has the name "".
func (v *View) Exchange(vhost, name string) (*Exchange, bool) {
	h, ok := v.vhosts.get(vhost)
	if !ok {
		return nil, false
	}
	x, ok := h.exchanges.get(name)
	if !ok {
		return nil, false
	}
	return x.rec, true
}

// Exchanges goes over all exchanges, the pre-declared ones included, sorted by vhost and
// name.
func (v *View) Exchanges() iter.Seq[*Exchange] {
	return func(yield func(*Exchange) bool) {
		v.vhosts.each(func(_ string, h vhost) bool {
			more := true
			h.exchanges.each(func(_ string, x *exchange) bool {
				more = yield(x.rec)
				return more
			})
			return more
		})
	}
}

// Bindings goes over all bindings, sorted by vhost, source, destination and key. The
// implicit bindings of the default exchange (EX-3) are not among them.
func (v *View) Bindings() iter.Seq[*Binding] {
	return func(yield func(*Binding) bool) {
		v.vhosts.each(func(_ string, h vhost) bool {
			more := true
			h.bindings.each(func(_ string, b *Binding) bool {
				more = yield(b)
				return more
			})
			return more
		})
	}
}

// BindingsFrom goes over the bindings whose source is the exchange.
func (v *View) BindingsFrom(vhost, source string) iter.Seq[*Binding] {
	return func(yield func(*Binding) bool) {
		h, _ := v.vhosts.get(vhost)
		withPrefix(h.bindings, sourcePrefix(source), yield)
	}
}

// BindingsTo goes over the bindings that lead to the queue or exchange.
func (v *View) BindingsTo(vhost string, kind DestinationKind, name string) iter.Seq[*Binding] {
	return func(yield func(*Binding) bool) {
		h, _ := v.vhosts.get(vhost)
		withPrefix(h.byDestination, destinationPrefix(kind, name), yield)
	}
}

// BindingsBetween goes over the bindings of one key between an exchange and a destination;
// they differ in their arguments.
func (v *View) BindingsBetween(vhost, source string, kind DestinationKind, destination, key string) iter.Seq[*Binding] {
	return func(yield func(*Binding) bool) {
		h, _ := v.vhosts.get(vhost)
		withPrefix(h.bindings, sourcePrefix(source)+destinationPrefix(kind, destination)+keyPart(key), yield)
	}
}

// withPrefix visits the bindings whose key begins with the prefix, until yield returns false.
// keyPart makes a whole part a prefix of nothing but itself.
func withPrefix(t tree[string, *Binding], prefix string, yield func(*Binding) bool) {
	t.from(prefix, func(k string, b *Binding) bool {
		return strings.HasPrefix(k, prefix) && yield(b)
	})
}

// VHost looks a vhost up.
func (v *View) VHost(name string) (*VHost, bool) {
	h, ok := v.vhosts.get(name)
	return h.rec, ok
}

// VHosts goes over all vhosts, sorted by name.
func (v *View) VHosts() iter.Seq[*VHost] {
	return func(yield func(*VHost) bool) {
		v.vhosts.each(func(_ string, h vhost) bool { return yield(h.rec) })
	}
}

// QueueCountIn returns the number of queues of a vhost.
func (v *View) QueueCountIn(vhost string) int {
	h, _ := v.vhosts.get(vhost)
	return h.queues.len()
}

// values goes over the values of a tree in the order of their keys.
func values[V any](t tree[string, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		t.each(func(_ string, x V) bool { return yield(x) })
	}
}

// Nodes goes over all registered nodes, sorted by id.
func (v *View) Nodes() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		v.nodes.each(func(_ id.NodeID, n *Node) bool { return yield(n) })
	}
}

// Ended reports whether a node is over for good with the store that it had: it was removed from the cluster, or the
// store was given up. Its id comes back only with a fresh store, and only in epochs above last. So what Ended has
// once reported stays true, whatever a newer view shows. It returns false for nodes that were removed before
// VersionStores: nobody knows their last epoch.
func (v *View) Ended(n id.NodeID) (last id.Epoch, ended bool) {
	if r, known := v.nodes.get(n); known {
		return r.Epoch, r.Vacant
	}
	if gone, was := v.forgotten.get(n); was {
		return gone.epoch, gone.epoch > 0
	}
	return 0, false
}

// Leaving goes over the nodes whose member of the catalog group must leave, with the index since
// which (NodeOut.Since), sorted by id.
func (v *View) Leaving() iter.Seq2[id.NodeID, uint64] {
	return func(yield func(id.NodeID, uint64) bool) { v.leaving.each(yield) }
}

// Leaves reports whether a node is among Leaving.
func (v *View) Leaves(n id.NodeID) bool {
	_, is := v.leaving.get(n)
	return is
}

// NodeSet identifies the nodes of one view, including forgotten and leaving ones, for caches: two
// are equal if none of them changed in between.
type NodeSet struct {
	nodes     *treeNode[id.NodeID, *Node]
	forgotten *treeNode[id.NodeID, *forgotten]
	leaving   *treeNode[id.NodeID, uint64]
}

// NodeSet returns the identity of the view's nodes.
func (v *View) NodeSet() NodeSet { return NodeSet{v.nodes.root, v.forgotten.root, v.leaving.root} }

// Node looks a registered node up.
func (v *View) Node(n id.NodeID) (*Node, bool) { return v.nodes.get(n) }

// NodeCount returns the number of registered nodes.
func (v *View) NodeCount() int { return v.nodes.len() }
