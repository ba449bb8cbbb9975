package wire

import (
	"encoding/binary"

	"github.com/quorate/quorate/message"
)

// Flags of a content header, one for each property, in this order. The last one is the cluster id
// of older protocol versions.
const (
	flagContentType uint16 = 1 << (15 - iota)
	flagContentEncoding
	flagHeaders
	flagDeliveryMode
	flagPriority
	flagCorrelationID
	flagReplyTo
	flagExpiration
	flagMessageID
	flagTimestamp
	flagType
	flagUserID
	flagAppID
	flagClusterID
)

const contentHead = 12

// ParseContentHeader reads a content header of class basic into properties and headers of m, leaves
// the other fields of m alone, and returns the size of the body in bytes. It allocates one copy of
// the payload, to which all strings refer, and what the headers need. A property that is present
// but empty is present in m (MSG-1). Errors: SyntaxError; FrameError for another class.
func ParseContentHeader(payload []byte, m *message.Message) (bodySize uint64, err error) {
	if len(payload) < contentHead+2 {
		return 0, fault(SyntaxError, "a content header of %d bytes, want at least %d", len(payload), contentHead+2)
	}
	if class := binary.BigEndian.Uint16(payload); class != ClassBasic {
		return 0, fault(FrameError, "a content header of class %d, want %d", class, ClassBasic)
	}
	bodySize = binary.BigEndian.Uint64(payload[4:])
	d := decoder{b: payload, at: contentHead}
	flags := d.short()
	if flags&(flagClusterID-1) != 0 {
		return 0, fault(SyntaxError, "a content header with properties that class basic does not have: flags %#04x", flags)
	}
	if flags != 0 {
		d.text = string(payload)
	}
	m.Properties, m.Headers = message.Properties{}, nil
	d.properties(flags, m)
	return bodySize, d.end("a content header")
}

// properties reads the properties whose flags are set, in the order of the bits, which is the order
// on the wire.
func (d *decoder) properties(flags uint16, m *message.Message) {
	p := &m.Properties
	for _, f := range [...]struct {
		flag uint16
		has  message.Presence
		to   *string
	}{
		{flagContentType, message.HasContentType, &p.ContentType},
		{flagContentEncoding, message.HasContentEncoding, &p.ContentEncoding},
		{flagHeaders, message.HasHeaders, nil},
		{flagDeliveryMode, message.HasDeliveryMode, nil},
		{flagPriority, message.HasPriority, nil},
		{flagCorrelationID, message.HasCorrelationID, &p.CorrelationID},
		{flagReplyTo, message.HasReplyTo, &p.ReplyTo},
		{flagExpiration, message.HasExpiration, &p.Expiration},
		{flagMessageID, message.HasMessageID, &p.MessageID},
		{flagTimestamp, message.HasTimestamp, nil},
		{flagType, message.HasType, &p.Type},
		{flagUserID, message.HasUserID, &p.UserID},
		{flagAppID, message.HasAppID, &p.AppID},
	} {
		if flags&f.flag == 0 {
			continue
		}
		p.Has |= f.has
		switch f.flag {
		case flagHeaders:
			m.Headers = d.table()
		case flagDeliveryMode:
			p.DeliveryMode = d.octet()
		case flagPriority:
			p.Priority = d.octet()
		case flagTimestamp:
			p.Timestamp = d.timestamp()
		default:
			*f.to = d.shortstr()
		}
	}
	if flags&flagClusterID != 0 {
		d.shortstr() // no message keeps it
	}
}

// AppendContentHeader appends the frame with a message's properties, the given headers and the size
// of its body. A delivery may have more headers than the message. It allocates nothing beyond b.
func AppendContentHeader(b []byte, channel uint16, m *message.Message, headers message.Table) []byte {
	at := len(b)
	b = AppendFrameHead(b, FrameHeader, channel, 0)
	b = binary.BigEndian.AppendUint16(b, ClassBasic)
	b = append(b, 0, 0) // weight, which is unused
	b = binary.BigEndian.AppendUint64(b, uint64(len(m.Body)))
	has := m.Properties.Present()
	if len(headers) > 0 {
		has |= message.HasHeaders
	}
	b = binary.BigEndian.AppendUint16(b, flagsOf(has))
	b = appendText(b, has, message.HasContentType, m.ContentType)
	b = appendText(b, has, message.HasContentEncoding, m.ContentEncoding)
	if has&message.HasHeaders != 0 {
		b = appendTable(b, headers)
	}
	if has&message.HasDeliveryMode != 0 {
		b = append(b, m.DeliveryMode)
	}
	if has&message.HasPriority != 0 {
		b = append(b, m.Priority)
	}
	b = appendText(b, has, message.HasCorrelationID, m.CorrelationID)
	b = appendText(b, has, message.HasReplyTo, m.ReplyTo)
	b = appendText(b, has, message.HasExpiration, m.Expiration)
	b = appendText(b, has, message.HasMessageID, m.MessageID)
	if has&message.HasTimestamp != 0 {
		b = appendLonglong(b, m.Timestamp)
	}
	b = appendText(b, has, message.HasType, m.Type)
	b = appendText(b, has, message.HasUserID, m.UserID)
	b = appendText(b, has, message.HasAppID, m.AppID)
	return sealFrame(b, at)
}

// flagsOf turns the set of properties into flags: the same order, from the other end.
func flagsOf(has message.Presence) uint16 {
	var flags uint16
	for bit, flag := message.HasContentType, flagContentType; bit <= message.HasAppID; bit, flag = bit<<1, flag>>1 {
		if has&bit != 0 {
			flags |= flag
		}
	}
	return flags
}

// appendText appends a property that has its bit, even an empty one (MSG-1).
func appendText(b []byte, has, bit message.Presence, s string) []byte {
	if has&bit == 0 {
		return b
	}
	return appendShortstr(b, s)
}

// BodyPart returns how many bytes of those that are left of a body the next frame has, of at most frameMax bytes, 0 for no
// limit.
func BodyPart(left int, frameMax uint32) int {
	if frameMax > FrameOverhead {
		return min(left, int(frameMax-FrameOverhead))
	}
	return left
}

// AppendBody appends a body in frames of at most frameMax bytes, 0 for no limit; an empty body has
// no frames.
func AppendBody(b []byte, channel uint16, body []byte, frameMax uint32) []byte {
	for len(body) > 0 {
		n := BodyPart(len(body), frameMax)
		b = AppendFrameHead(b, FrameBody, channel, n)
		b = AppendFrameEnd(append(b, body[:n]...))
		body = body[n:]
	}
	return b
}
