package catalog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/quorate/quorate/id"
)

// AppendCommand adds the byte form of a command to b and returns the longer slice.
func AppendCommand(b []byte, cmd Command) []byte {
	return cmd.append(append(b, byte(Since(cmd)), byte(cmd.kind())))
}

// append leaves an empty declarer out. That is the form that nodes before VersionDeclarers read.
func (c *DeclareQueue) append(b []byte) []byte {
	b = appendString(b, c.VHost)
	b = appendString(b, c.Name)
	b = appendString(b, c.Type)
	b = appendBool(b, c.Durable)
	b = appendBool(b, c.Exclusive)
	b = appendBool(b, c.AutoDelete)
	b = appendTable(b, c.Arguments)
	b = appendNodeIDs(b, c.Members)
	b = appendString(b, c.Leader)
	if b = appendLife(b, c.Exclusive, c.Owner, c.Durable, c.Home); c.DeclaredBy != "" {
		b = appendString(b, c.DeclaredBy)
	}
	return b
}

// appendLife adds what bounds the life of a queue, as far as something does.
func appendLife(b []byte, exclusive bool, o Owner, durable bool, home id.Epoch) []byte {
	if exclusive {
		b = binary.AppendUvarint(appendString(b, o.Node), uint64(o.Epoch))
		b = appendString(b, o.Key)
	}
	if !durable {
		b = binary.AppendUvarint(b, uint64(home))
	}
	return b
}

// life reads what appendLife added.
func (r *reader) life(exclusive, durable bool) (o Owner, home id.Epoch) {
	if exclusive {
		o = Owner{Node: id.NodeID(r.string("owner's node")), Epoch: id.Epoch(r.uvarint("owner's epoch")), Key: r.string("owner's key")}
	}
	if !durable {
		home = id.Epoch(r.uvarint("home"))
	}
	return o, home
}

// declareQueue reads what DeclareQueue.append wrote; the command's version reports whether a declarer
// follows.
func (r *reader) declareQueue() *DeclareQueue {
	c := &DeclareQueue{
		VHost: r.string("vhost"), Name: r.string("name"), Type: QueueType(r.string("type")),
		Durable: r.bool("durable"), Exclusive: r.bool("exclusive"), AutoDelete: r.bool("auto_delete"),
		Arguments: r.table("arguments"), Members: r.nodeIDs("members"), Leader: id.NodeID(r.string("leader")),
	}
	c.Owner, c.Home = r.life(c.Exclusive, c.Durable)
	if r.machine >= VersionDeclarers {
		c.DeclaredBy = r.string("declared by")
	}
	return c
}

// append writes the UID even where it is 0, which stands for any queue of the name.
func (c *DeleteQueue) append(b []byte) []byte {
	b = appendString(b, c.VHost)
	b = appendString(b, c.Name)
	return binary.AppendUvarint(b, uint64(c.UID))
}

func (c *DrainDeleteQueue) append(b []byte) []byte {
	return binary.AppendUvarint(appendString(appendString(b, c.VHost), c.Name), uint64(c.UID))
}

// append writes the queue by its UID: its name could belong to a later queue.
func (c *SetQueueMembers) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(c.UID))
	b = appendNodeIDs(b, c.Members)
	return appendString(b, c.Leader)
}

// append writes a missing node to join or leave as "".
func (c *BeginMemberChange) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(c.UID))
	b = appendString(b, c.Join)
	b = appendString(b, c.Leave)
	return binary.AppendUvarint(b, uint64(c.Size))
}

// append writes the step as its number in MemberStep.
func (c *CompleteMemberStep) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(c.UID))
	b = binary.AppendUvarint(b, c.Change)
	return append(b, byte(c.Step))
}

func (c *CancelMemberChange) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(c.UID))
	return binary.AppendUvarint(b, c.Change)
}

// append writes the declaration in the order of docs/formats/catalog.md.
func (c *DeclareExchange) append(b []byte) []byte {
	b = appendString(b, c.VHost)
	b = appendString(b, c.Name)
	b = appendString(b, c.Type)
	b = appendBool(b, c.Durable)
	b = appendBool(b, c.AutoDelete)
	b = appendBool(b, c.Internal)
	return appendTable(b, c.Arguments)
}

// append writes the condition as well: only the catalog can decide it without a race.
func (c *DeleteExchange) append(b []byte) []byte {
	b = appendString(b, c.VHost)
	b = appendString(b, c.Name)
	return appendBool(b, c.IfUnused)
}

func (c *Bind) append(b []byte) []byte {
	return appendBinding(b, (*Binding)(c))
}

func (c *Unbind) append(b []byte) []byte {
	return appendBinding(b, (*Binding)(c))
}

// append leaves the store's part out where the node names none, in the form of kindRegisterNode,
// which builds before VersionStores read.
func (c *RegisterNode) append(b []byte) []byte {
	b = appendNode(b, &Node{ID: c.ID, Address: c.Address, ClientAddress: c.ClientAddress, Epoch: c.Epoch})
	if c.Store == "" {
		return b
	}
	b = appendString(b, c.Store)
	b = appendBool(b, c.Fresh)
	b = binary.AppendUvarint(b, uint64(c.FirstEpoch))
	return appendBool(b, c.Empty)
}

// registerNode reads either form; stores reports which, by the command's kind. In the newer one a
// store must have a name.
func (r *reader) registerNode(stores bool) *RegisterNode {
	n := r.node()
	c := &RegisterNode{ID: n.ID, Address: n.Address, ClientAddress: n.ClientAddress, Epoch: n.Epoch}
	if !stores {
		return c
	}
	c.Store, c.Fresh = id.StoreID(r.string("store")), r.bool("fresh")
	c.FirstEpoch, c.Empty = id.Epoch(r.uvarint("first epoch")), r.bool("empty")
	if r.err == nil && c.Store == "" {
		r.fail("store", errors.New("has no name"))
	}
	return c
}

func (c *ForgetNode) append(b []byte) []byte {
	return appendString(b, c.ID)
}

// DecodeCommand reads a command that fills b. Decoding and appending again gives the same
// bytes. The error is ErrNewer if another build can read it.
func DecodeCommand(b []byte) (Command, error) {
	r := reader{what: "command", b: b}
	r.version(byte(VersionFirst), byte(NewestVersion))
	r.machine = Version(r.form)
	cmd := r.command(commandKind(r.byte("kind")))
	if r.err == nil && Since(cmd) != r.machine {
		r.at = 0
		r.fail("version", fmt.Errorf("form %d of a command that has form %d", r.machine, Since(cmd)))
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return cmd, nil
}

// CheckCommand returns why a command cannot be stored, or nil. Proposers ask it before they propose: a command in the
// log that members cannot decode stops the catalog.
func CheckCommand(cmd Command) error {
	_, err := DecodeCommand(AppendCommand(nil, cmd))
	return err
}

// command reads the fields of a command by its kind. Kinds that only changed their form share a
// method with a flag.
func (r *reader) command(kind commandKind) Command {
	switch kind {
	case kindDeclareQueue:
		return r.declareQueue()
	case kindDeleteQueue:
		return &DeleteQueue{
			VHost: r.string("vhost"), Name: r.string("name"), UID: id.QueueUID(r.uvarint("uid")),
		}
	case kindDrainDeleteQueue:
		return &DrainDeleteQueue{
			VHost: r.string("vhost"), Name: r.string("name"), UID: id.QueueUID(r.uvarint("uid")),
		}
	case kindSetQueueMembers:
		return &SetQueueMembers{
			UID: id.QueueUID(r.uvarint("uid")), Members: r.nodeIDs("members"), Leader: id.NodeID(r.string("leader")),
		}
	case kindDeclareExchange:
		return &DeclareExchange{
			VHost: r.string("vhost"), Name: r.string("name"), Type: ExchangeType(r.string("type")),
			Durable: r.bool("durable"), AutoDelete: r.bool("auto_delete"), Internal: r.bool("internal"),
			Arguments: r.table("arguments"),
		}
	case kindDeleteExchange:
		return &DeleteExchange{
			VHost: r.string("vhost"), Name: r.string("name"), IfUnused: r.bool("if_unused"),
		}
	case kindBind:
		b := Bind(r.binding())
		return &b
	case kindUnbind:
		b := Unbind(r.binding())
		return &b
	case kindRegisterNode:
		return r.registerNode(false)
	case kindRegisterStore:
		return r.registerNode(true)
	case kindLeaveCatalog:
		return &LeaveCatalog{ID: id.NodeID(r.string("id")), Store: id.StoreID(r.string("store")), Since: r.uvarint("since")}
	case kindNodeOut:
		return &NodeOut{ID: id.NodeID(r.string("id")), Since: r.uvarint("since")}
	case kindReplaceNode:
		return &ReplaceNode{ID: id.NodeID(r.string("id")), Epoch: id.Epoch(r.uvarint("epoch")), AcceptLoss: r.bool("accept loss")}
	case kindForgetNode:
		return &ForgetNode{ID: id.NodeID(r.string("id"))}
	case kindPutVHost:
		return r.putVHost(false)
	case kindPutStrictVHost:
		return r.putVHost(true)
	case kindDeleteVHost:
		return &DeleteVHost{Name: r.string("vhost")}
	case kindSetVHostLimits:
		return r.setVHostLimits()
	case kindPutUser:
		return r.putUser()
	case kindChangeUser:
		return r.changeUser()
	case kindDeleteUser:
		return &DeleteUser{Name: r.string("user")}
	case kindSetUserLimits:
		return r.setUserLimits()
	case kindSetPermission:
		return &SetPermission{Permission: r.permission(), OnlyNew: r.bool("only new")}
	case kindClearPermission:
		return &ClearPermission{User: r.string("user"), VHost: r.string("vhost")}
	case kindSetTopicPermission:
		return &SetTopicPermission{TopicPermission: r.topicPermission(), OnlyNew: r.bool("only new")}
	case kindClearTopicPermission:
		return &ClearTopicPermission{User: r.string("user"), VHost: r.string("vhost"), Exchange: r.string("exchange")}
	case kindPutPolicy:
		return &PutPolicy{Policy: r.policy(), OnlyNew: r.bool("only new")}
	case kindDeletePolicy:
		return &DeletePolicy{VHost: r.string("vhost"), Name: r.string("policy"), Operator: r.bool("operator")}
	case kindPutParameter:
		return &PutParameter{Parameter: r.parameter(), OnlyNew: r.bool("only new")}
	case kindDeleteParameter:
		return &DeleteParameter{VHost: r.string("vhost"), Component: r.string("component"), Name: r.string("parameter")}
	case kindBeginMemberChange:
		return &BeginMemberChange{
			UID: id.QueueUID(r.uvarint("uid")), Join: id.NodeID(r.string("join")),
			Leave: id.NodeID(r.string("leave")), Size: r.size("size"),
		}
	case kindCompleteMemberStep:
		return &CompleteMemberStep{
			UID: id.QueueUID(r.uvarint("uid")), Change: r.uvarint("change"), Step: MemberStep(r.byte("step")),
		}
	case kindCancelMemberChange:
		return &CancelMemberChange{UID: id.QueueUID(r.uvarint("uid")), Change: r.uvarint("change")}
	case kindRaiseVersion:
		if r.machine <= VersionFirst {
			r.fail("version", fmt.Errorf("version %d is never raised to", r.machine))
		}
		return &RaiseVersion{Version: r.machine}
	case kindSkipQueueUIDs:
		return &SkipQueueUIDs{}
	}
	r.fail("kind", fmt.Errorf("%w: unknown command %d", ErrNewer, kind))
	return nil
}

// appendBinding writes the fields of Bind, Unbind and a stored Binding alike.
func appendBinding(b []byte, c *Binding) []byte {
	b = appendString(b, c.VHost)
	b = appendString(b, c.Source)
	b = append(b, byte(c.DestinationKind))
	b = appendString(b, c.Destination)
	b = appendString(b, c.Key)
	return appendTable(b, c.Arguments)
}

// binding reads what appendBinding wrote.
func (r *reader) binding() Binding {
	return Binding{
		VHost: r.string("vhost"), Source: r.string("source"),
		DestinationKind: r.destinationKind("destination kind"), Destination: r.string("destination"),
		Key: r.string("key"), Arguments: r.table("arguments"),
	}
}

// appendNode writes what the first version knew of a node; appendStore adds the rest.
func appendNode(b []byte, n *Node) []byte {
	b = appendString(b, n.ID)
	b = appendString(b, n.Address)
	b = appendString(b, n.ClientAddress)
	return binary.AppendUvarint(b, uint64(n.Epoch))
}

// node reads what appendNode wrote.
func (r *reader) node() Node {
	return Node{
		ID: id.NodeID(r.string("id")), Address: r.string("address"),
		ClientAddress: r.string("client address"), Epoch: id.Epoch(r.uvarint("epoch")),
	}
}

// AppendReply adds the byte form of a reply to b and returns the longer slice.
func AppendReply(b []byte, r Reply) []byte {
	version := byte(replyVersion)
	if r.Err != nil && r.Err.Current != "" {
		version = replyOfConflict
	}
	b = append(b, version)
	b = binary.AppendUvarint(b, r.Index)
	b = binary.AppendUvarint(b, uint64(r.UID))
	b = appendBool(b, r.Created)
	b = appendBool(b, r.Deleted)
	b = appendBool(b, r.Err != nil)
	if e := r.Err; e != nil {
		b = append(b, byte(e.Code))
		for _, s := range [...]string{e.Kind, e.Name, e.VHost, e.Arg, e.Value, e.Reason} {
			b = appendString(b, s)
		}
		if version == replyOfConflict {
			b = appendString(b, e.Current)
		}
	}
	return b
}

// DecodeReply reads a reply that fills b.
func DecodeReply(b []byte) (Reply, error) {
	r := reader{what: "reply", b: b}
	version := r.replyVersion()
	reply := Reply{
		Index: r.uvarint("index"), UID: id.QueueUID(r.uvarint("uid")),
		Created: r.bool("created"), Deleted: r.bool("deleted"),
	}
	if r.bool("error") {
		reply.Err = &Error{
			Code: ErrorCode(r.byte("error code")),
			Kind: r.string("error kind"), Name: r.string("error name"), VHost: r.string("error vhost"),
			Arg: r.string("error argument"), Value: r.string("error value"), Reason: r.string("error reason"),
		}
		if version == replyOfConflict {
			reply.Err.Current = r.string("error current")
		}
	}
	if r.err == nil && (version == replyOfConflict) != (reply.Err != nil && reply.Err.Current != "") {
		r.fail("version", fmt.Errorf("format version %d is for redeclarations that differ, and for nothing else", replyOfConflict))
	}
	return reply, r.end()
}
