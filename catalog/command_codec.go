package catalog

import (
	"encoding/binary"
	"fmt"

	"github.com/quorate/quorate/id"
)

// AppendCommand adds the byte form of a command to b and returns the longer slice.
func AppendCommand(b []byte, cmd Command) []byte {
	b = append(b, commandVersion, byte(cmd.kind()))
	switch c := cmd.(type) {
	case *DeclareQueue:
		b = appendString(b, c.VHost)
		b = appendString(b, c.Name)
		b = appendString(b, c.Type)
		b = appendBool(b, c.Durable)
		b = appendBool(b, c.Exclusive)
		b = appendBool(b, c.AutoDelete)
		b = appendTable(b, c.Arguments)
		b = appendNodeIDs(b, c.Members)
		b = appendString(b, c.Leader)
	case *DeleteQueue:
		b = appendString(b, c.VHost)
		b = appendString(b, c.Name)
		b = binary.AppendUvarint(b, uint64(c.UID))
	case *SetQueueMembers:
		b = binary.AppendUvarint(b, uint64(c.UID))
		b = appendNodeIDs(b, c.Members)
		b = appendString(b, c.Leader)
	case *BeginMemberChange:
		b = binary.AppendUvarint(b, uint64(c.UID))
		b = appendString(b, c.Join)
		b = appendString(b, c.Leave)
		b = binary.AppendUvarint(b, uint64(c.Size))
	case *SettleMemberChange:
		b = binary.AppendUvarint(b, uint64(c.UID))
		b = binary.AppendUvarint(b, c.Change)
		b = append(b, byte(c.Step))
	case *CancelMemberChange:
		b = binary.AppendUvarint(b, uint64(c.UID))
		b = binary.AppendUvarint(b, c.Change)
	case *DeclareExchange:
		b = appendString(b, c.VHost)
		b = appendString(b, c.Name)
		b = appendString(b, c.Type)
		b = appendBool(b, c.Durable)
		b = appendBool(b, c.AutoDelete)
		b = appendBool(b, c.Internal)
		b = appendTable(b, c.Arguments)
	case *DeleteExchange:
		b = appendString(b, c.VHost)
		b = appendString(b, c.Name)
		b = appendBool(b, c.IfUnused)
	case *Bind:
		b = appendBinding(b, (*Binding)(c))
	case *Unbind:
		b = appendBinding(b, (*Binding)(c))
	case *RegisterNode:
		b = appendNode(b, (*Node)(c))
	case *ForgetNode:
		b = appendString(b, c.ID)
	}
	return b
}

// DecodeCommand reads a command that fills b. Decoding and appending again gives the same
// bytes.
func DecodeCommand(b []byte) (Command, error) {
	r := reader{what: "command", b: b}
	r.version(commandVersion)
	cmd := r.command(commandKind(r.byte("kind")))
	if err := r.end(); err != nil {
		return nil, err
	}
	return cmd, nil
}

// CheckCommand says why a command cannot be stored, nil when it can. Proposers ask it
// before they propose: a command in the log that members cannot decode stops the catalog.
func CheckCommand(cmd Command) error {
	_, err := DecodeCommand(AppendCommand(nil, cmd))
	return err
}

func (r *reader) command(kind commandKind) Command {
	switch kind {
	case kindDeclareQueue:
		return &DeclareQueue{
			VHost: r.string("vhost"), Name: r.string("name"), Type: QueueType(r.string("type")),
			Durable: r.bool("durable"), Exclusive: r.bool("exclusive"), AutoDelete: r.bool("auto_delete"),
			Arguments: r.table("arguments"), Members: r.nodeIDs("members"), Leader: id.NodeID(r.string("leader")),
		}
	case kindDeleteQueue:
		return &DeleteQueue{
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
		n := RegisterNode(r.node())
		return &n
	case kindForgetNode:
		return &ForgetNode{ID: id.NodeID(r.string("id"))}
	case kindBeginMemberChange:
		return &BeginMemberChange{
			UID: id.QueueUID(r.uvarint("uid")), Join: id.NodeID(r.string("join")),
			Leave: id.NodeID(r.string("leave")), Size: r.size("size"),
		}
	case kindSettleMemberChange:
		return &SettleMemberChange{
			UID: id.QueueUID(r.uvarint("uid")), Change: r.uvarint("change"), Step: MemberStep(r.byte("step")),
		}
	case kindCancelMemberChange:
		return &CancelMemberChange{UID: id.QueueUID(r.uvarint("uid")), Change: r.uvarint("change")}
	}
	r.fail("kind", fmt.Errorf("unknown command %d", kind))
	return nil
}

func appendBinding(b []byte, c *Binding) []byte {
	b = appendString(b, c.VHost)
	b = appendString(b, c.Source)
	b = append(b, byte(c.DestinationKind))
	b = appendString(b, c.Destination)
	b = appendString(b, c.Key)
	return appendTable(b, c.Arguments)
}

func (r *reader) binding() Binding {
	return Binding{
		VHost: r.string("vhost"), Source: r.string("source"),
		DestinationKind: r.destinationKind("destination kind"), Destination: r.string("destination"),
		Key: r.string("key"), Arguments: r.table("arguments"),
	}
}

func appendNode(b []byte, n *Node) []byte {
	b = appendString(b, n.ID)
	b = appendString(b, n.Address)
	b = appendString(b, n.ClientAddress)
	return binary.AppendUvarint(b, uint64(n.Epoch))
}

func (r *reader) node() Node {
	return Node{
		ID: id.NodeID(r.string("id")), Address: r.string("address"),
		ClientAddress: r.string("client address"), Epoch: id.Epoch(r.uvarint("epoch")),
	}
}

// AppendReply adds the byte form of a reply to b and returns the longer slice.
func AppendReply(b []byte, r Reply) []byte {
	b = append(b, replyVersion)
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
	}
	return b
}

// DecodeReply reads a reply that fills b.
func DecodeReply(b []byte) (Reply, error) {
	r := reader{what: "reply", b: b}
	r.version(replyVersion)
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
	}
	return reply, r.end()
}
