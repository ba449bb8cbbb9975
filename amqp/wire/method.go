package wire

import (
	"encoding/binary"
)

// MethodID has the class in the upper 16 bits and the method's number in the lower 16.
type MethodID uint32

// Class returns the class.
func (id MethodID) Class() uint16 { return uint16(id >> 16) }

// Method returns the number within the class.
func (id MethodID) Method() uint16 { return uint16(id & 0xFFFF) } // the lower half

// Method is one of the generated structs.
type Method interface {
	// ID returns the id of the method.
	ID() MethodID
	parse(d *decoder)
	appendFields(b []byte) []byte
}

const methodHead = 4

// MethodOf returns the id of the method in a payload. Errors: SyntaxError.
func MethodOf(payload []byte) (MethodID, error) {
	if len(payload) < methodHead {
		return 0, fault(SyntaxError, "a method frame of %d bytes, the ids alone take %d", len(payload), methodHead)
	}
	return MethodID(binary.BigEndian.Uint32(payload)), nil
}

// ParseMethod reads any method. Errors: CommandInvalid for an unknown one, SyntaxError.
func ParseMethod(payload []byte, names *Names) (Method, error) {
	id, err := MethodOf(payload)
	if err != nil {
		return nil, err
	}
	m := newMethod(id)
	if m == nil {
		return nil, fault(CommandInvalid, "there is no method %d in class %d", id.Method(), id.Class())
	}
	return m, parse(m, payload, names)
}

// ParsePublish reads basic.publish into m and allocates nothing if names has the exchange
// and the routing key. Errors: SyntaxError.
func ParsePublish(payload []byte, names *Names, m *BasicPublish) error {
	d := decoder{b: payload, at: methodHead, names: names}
	m.parse(&d)
	return d.end(BasicPublishID.String())
}

// ParseAck reads basic.ack into m and allocates nothing. Errors: SyntaxError.
func ParseAck(payload []byte, m *BasicAck) error {
	d := decoder{b: payload, at: methodHead}
	m.parse(&d)
	return d.end(BasicAckID.String())
}

// parse reads the fields of a method behind its head. Bytes left over are an error.
func parse(m Method, payload []byte, names *Names) error {
	d := decoder{b: payload, at: methodHead, names: names}
	m.parse(&d)
	return d.end(m.ID().String())
}

// AppendMethod appends a frame with a method. The text of a close is cut if it is too long for its
// field; all other strings come from the peer and so fit.
func AppendMethod(b []byte, channel uint16, m Method) []byte {
	at := len(b)
	return sealFrame(m.appendFields(appendMethodHead(b, channel, m.ID())), at)
}

// appendMethodHead appends what precedes a method's fields.
func appendMethodHead(b []byte, channel uint16, id MethodID) []byte {
	return binary.BigEndian.AppendUint32(AppendFrameHead(b, FrameMethod, channel, 0), uint32(id))
}

// AppendDeliver is AppendMethod for basic.deliver. It allocates nothing, because m does not become
// an interface.
func AppendDeliver(b []byte, channel uint16, m *BasicDeliver) []byte {
	at := len(b)
	return sealFrame(m.appendFields(appendMethodHead(b, channel, BasicDeliverID)), at)
}

// AppendAck is AppendMethod for basic.ack. It allocates nothing.
func AppendAck(b []byte, channel uint16, m *BasicAck) []byte {
	at := len(b)
	return sealFrame(m.appendFields(appendMethodHead(b, channel, BasicAckID)), at)
}

// maxNames bounds how many strings Names keeps, and maxNameBytes each: those of exchanges, keys and queues fit in.
const maxNames, maxNameBytes = 1024, 255

// Names keeps strings that recur in methods, such as exchanges and routing keys, so that each is
// allocated once. The zero value is ready; a nil one keeps nothing.
type Names struct{ known map[string]string }

// get returns the string of the bytes, the known one without an allocation.
func (n *Names) get(b []byte) string {
	if n == nil || len(b) > maxNameBytes {
		return string(b)
	}
	if s, ok := n.known[string(b)]; ok {
		return s
	}
	s := string(b)
	if n.known == nil || len(n.known) >= maxNames { // strings that occur once displace the others only briefly
		n.known = make(map[string]string)
	}
	n.known[s] = s
	return s
}
