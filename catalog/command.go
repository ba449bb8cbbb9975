package catalog

import (
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// Command is one change of the catalog: a pointer to one of the structs below.
type Command interface {
	kind() commandKind
	// append adds the fields' byte form.
	append(b []byte) []byte
}

// commandKind is the command's number in its byte form; numbers are never used again.
type commandKind uint8

const (
	kindDeclareQueue commandKind = iota + 1
	kindDeleteQueue
	kindSetQueueMembers
	kindDeclareExchange
	kindDeleteExchange
	kindBind
	kindUnbind
	kindRegisterNode
	kindForgetNode
	kindBeginMemberChange
	kindCompleteMemberStep
	kindCancelMemberChange
	kindPutVHost
	kindDeleteVHost
	kindSetVHostLimits
	kindPutUser
	kindDeleteUser
	kindSetUserLimits
	kindSetPermission
	kindClearPermission
	kindSetTopicPermission
	kindClearTopicPermission
	kindPutPolicy
	kindDeletePolicy
	kindPutParameter
	kindDeleteParameter
	kindDrainDeleteQueue
	kindRaiseVersion
	kindRegisterStore
	kindLeaveCatalog
	kindNodeOut
	kindReplaceNode
	kindChangeUser
	kindPutStrictVHost
	kindSkipQueueUIDs
)

// QueueType is the profile of a queue.
type QueueType string

// The queue types.
const (
	QueueQuorum  QueueType = "quorum"
	QueueClassic QueueType = "classic"
)

// DestinationKind is the kind of a binding's destination.
type DestinationKind uint8

// The kinds of destination; the numbers are those of the byte form.
const (
	ToQueue DestinationKind = iota
	ToExchange
)

// String returns "queue" or "exchange".
func (k DestinationKind) String() string {
	if k == ToExchange {
		return "exchange"
	}
	return "queue"
}

// DeclareQueue creates a queue, or checks that the existing one is equivalent. The reply
// carries the UID and whether the queue is new. Package policy checks the arguments beforehand; the
// catalog checks names, members and equivalence.
type DeclareQueue struct {
	VHost, Name string
	Type        QueueType // resolved, never empty
	Durable     bool
	Exclusive   bool
	AutoDelete  bool
	Arguments   message.Table
	Members     []id.NodeID // registered nodes that hold the group
	Leader      id.NodeID   // preferred leader, one of Members
	Owner       Owner       // if Exclusive: the connection that it belongs to
	Home        id.Epoch    // if not Durable: the present epoch of its one member
	DeclaredBy  string      // the declaring user; "": none. Not before VersionDeclarers (VH-17)
}

// Owner names a client's connection: its node, the life of that node, and a key that nobody can
// guess. Package broker makes them; the catalog compares them.
type Owner struct {
	Node  id.NodeID
	Epoch id.Epoch
	Key   string
}

// DeleteQueue removes a queue and its bindings. A missing queue is fine: Deleted
// is false then.
type DeleteQueue struct {
	VHost, Name string
	UID         id.QueueUID // 0 = whichever has the name; else it must match
}

// DrainDeleteQueue begins the deletion of a queue that first dead-letters its messages. The
// queue loses its bindings, and its name leads nowhere but stays reserved until the queue's leader
// deletes the record. A missing queue is fine: the reply has no UID then.
type DrainDeleteQueue struct {
	VHost, Name string
	UID         id.QueueUID // 0 = whichever has the name; else it must match
}

// SetQueueMembers overwrites the members of a queue's group and ends a change under way. It does
// not make the group follow.
type SetQueueMembers struct {
	UID     id.QueueUID
	Members []id.NodeID
	Leader  id.NodeID // preferred leader; "" keeps the present one when it stays a member
}

// DeclareExchange creates an exchange, or checks that the existing one is equivalent (EX-5).
type DeclareExchange struct {
	VHost, Name string
	Type        ExchangeType
	Durable     bool
	AutoDelete  bool
	Internal    bool
	Arguments   message.Table
}

// DeleteExchange removes an exchange and its bindings (EX-6). A missing one is fine.
type DeleteExchange struct {
	VHost, Name string
	IfUnused    bool // refuse while the exchange is the source of a binding
}

// Bind adds a binding; an equal one is fine (EX-13).
type Bind struct {
	VHost, Source   string
	DestinationKind DestinationKind
	Destination     string
	Key             string
	Arguments       message.Table
}

// Unbind removes a binding; a missing one is fine (EX-13).
type Unbind struct {
	VHost, Source   string
	DestinationKind DestinationKind
	Destination     string
	Key             string
	Arguments       message.Table
}

// RegisterNode makes a node known, or updates its addresses at a new start. It is refused if
// the node is known with another store, or was forgotten with this one (RE-9).
type RegisterNode struct {
	ID            id.NodeID
	Address       string // host:port for other nodes
	ClientAddress string // host:port for clients
	Epoch         id.Epoch

	// The following exists from VersionStores on.

	Store id.StoreID // "": from a build without stores
	// Fresh reports that no catalog has accepted the store yet, and FirstEpoch is the epoch of its
	// first start: a registration between that and Epoch was its own.
	Fresh      bool
	FirstEpoch id.Epoch
	// Empty reports that the node's member of the catalog group is empty, so that it must not begin
	// before a former member has left the group: see LeaveCatalog.
	Empty bool
}

// BeginMemberChange starts a change of a queue's members (RE-3). There is one change at a time: a
// repeat of the one under way succeeds, another one is refused. The group's leader carries it out
// and reports by CompleteMemberStep. The reply's index is the ID of the change unless it was under
// way already.
type BeginMemberChange struct {
	UID   id.QueueUID
	Join  id.NodeID // becomes a member; "": none
	Leave id.NodeID // leaves the group; "": none. The same as Join: the member is rebuilt
	Size  int       // number of members that the queue should have from then on (QueueRecord.Size); 0: unchanged
}

// CompleteMemberStep reports that the group has completed a step of a change. It is refused unless
// that change is under way.
type CompleteMemberStep struct {
	UID    id.QueueUID
	Change uint64 // MemberChange.ID
	Step   MemberStep
}

// CancelMemberChange asks to undo a change as far as possible. If the change is over, it succeeds
// and changes nothing.
type CancelMemberChange struct {
	UID    id.QueueUID
	Change uint64
}

// MemberStep is a step of a change of members; the numbers are those of the byte form.
type MemberStep uint8

// The steps.
const (
	// StepNone changes nothing: a caller that gets no refusal knows that the change is still under way.
	StepNone MemberStep = iota
	// StepJoined: the joining node votes, so it is a member.
	StepJoined
	// StepLeft: the leaving node is out of the group.
	StepLeft
	// StepCancelled: what was left of the change is taken back.
	StepCancelled
)

// ForgetNode removes a node that is a member of no queue.
type ForgetNode struct {
	ID id.NodeID
}

func (*DeclareQueue) kind() commandKind     { return kindDeclareQueue }
func (*DeleteQueue) kind() commandKind      { return kindDeleteQueue }
func (*DrainDeleteQueue) kind() commandKind { return kindDrainDeleteQueue }
func (*SetQueueMembers) kind() commandKind  { return kindSetQueueMembers }
func (*DeclareExchange) kind() commandKind  { return kindDeclareExchange }
func (*DeleteExchange) kind() commandKind   { return kindDeleteExchange }
func (*Bind) kind() commandKind             { return kindBind }
func (*Unbind) kind() commandKind           { return kindUnbind }
func (*ForgetNode) kind() commandKind       { return kindForgetNode }
func (*LeaveCatalog) kind() commandKind     { return kindLeaveCatalog }
func (*NodeOut) kind() commandKind          { return kindNodeOut }
func (*ReplaceNode) kind() commandKind      { return kindReplaceNode }
func (*BeginMemberChange) kind() commandKind {
	return kindBeginMemberChange
}

func (*CompleteMemberStep) kind() commandKind {
	return kindCompleteMemberStep
}

func (*CancelMemberChange) kind() commandKind {
	return kindCancelMemberChange
}
