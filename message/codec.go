package message

import (
	"encoding/binary"
)

// formatVersion is the first byte of every stored message (docs/formats/message.md).
const formatVersion = 1

// prefixBytes is the fixed part: version, head length and body length.
const prefixBytes = 1 + 4 + 4

// Flags of the head that follow the presence bits.
const (
	partKeys = 1 << iota
	partDeaths
	partAnnotations

	allParts = partAnnotations<<1 - 1
)

// Append adds the stored form of m to b and returns the longer slice. It allocates only
// when b has no room. It does not check limits: see CheckLimits.
func Append(b []byte, m *Message) []byte {
	start := len(b)
	b = append(b, make([]byte, prefixBytes)...)
	has := m.Present()
	b = binary.LittleEndian.AppendUint16(b, uint16(has))
	b = appendProperties(b, &m.Properties, has)
	if has&HasHeaders != 0 {
		b = appendTable(b, m.Headers)
	}
	b = appendString(b, m.Exchange)
	var parts byte
	if len(m.RoutingKeys) > 0 {
		parts |= partKeys
	}
	if len(m.Deaths) > 0 {
		parts |= partDeaths
	}
	if len(m.Annotations) > 0 {
		parts |= partAnnotations
	}
	b = append(b, parts)
	if parts&partKeys != 0 {
		b = appendStrings(b, m.RoutingKeys)
		b = binary.AppendUvarint(b, uint64(m.BCCCount))
	}
	if parts&partDeaths != 0 {
		b = binary.AppendUvarint(b, uint64(len(m.Deaths)))
		for i := range m.Deaths {
			b = appendDeath(b, &m.Deaths[i])
		}
		b = appendOrigin(b, &m.FirstDeath)
		b = appendOrigin(b, &m.LastDeath)
	}
	if parts&partAnnotations != 0 {
		b = appendTable(b, m.Annotations)
	}
	prefix := b[start:]
	prefix[0] = formatVersion
	binary.LittleEndian.PutUint32(prefix[1:], uint32(len(prefix)-prefixBytes))
	binary.LittleEndian.PutUint32(prefix[5:], uint32(len(m.Body)))
	return append(b, m.Body...)
}

// appendProperties writes those that has names, in the order of their bits (docs/formats/message.md).
func appendProperties(b []byte, p *Properties, has Presence) []byte {
	if has&HasContentType != 0 {
		b = appendString(b, p.ContentType)
	}
	if has&HasContentEncoding != 0 {
		b = appendString(b, p.ContentEncoding)
	}
	if has&HasDeliveryMode != 0 {
		b = append(b, p.DeliveryMode)
	}
	if has&HasPriority != 0 {
		b = append(b, p.Priority)
	}
	if has&HasCorrelationID != 0 {
		b = appendString(b, p.CorrelationID)
	}
	if has&HasReplyTo != 0 {
		b = appendString(b, p.ReplyTo)
	}
	if has&HasExpiration != 0 {
		b = appendString(b, p.Expiration)
	}
	if has&HasMessageID != 0 {
		b = appendString(b, p.MessageID)
	}
	if has&HasTimestamp != 0 {
		b = binary.LittleEndian.AppendUint64(b, p.Timestamp)
	}
	if has&HasType != 0 {
		b = appendString(b, p.Type)
	}
	if has&HasUserID != 0 {
		b = appendString(b, p.UserID)
	}
	if has&HasAppID != 0 {
		b = appendString(b, p.AppID)
	}
	return b
}

// appendDeath writes one line of the history of a dead letter. A byte before the TTL marks whether it is present.
func appendDeath(b []byte, d *Death) []byte {
	b = appendString(b, d.Queue)
	b = appendString(b, d.Reason)
	b = binary.AppendUvarint(b, d.Count)
	b = binary.AppendVarint(b, d.FirstTimeMs)
	b = binary.AppendVarint(b, d.LastTimeMs)
	b = appendString(b, d.Exchange)
	b = appendStrings(b, d.RoutingKeys)
	if d.HasTTL {
		b = append(b, 1)
		b = binary.AppendVarint(b, d.TTLMs)
	} else {
		b = append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(d.DeliveryCount))
	return binary.AppendUvarint(b, uint64(d.AcquiredCount))
}

// appendOrigin writes where the message died first or last.
func appendOrigin(b []byte, o *DeathOrigin) []byte {
	b = appendString(b, o.Queue)
	b = appendString(b, o.Reason)
	return appendString(b, o.Exchange)
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// appendStrings writes the number of strings, then each with its length.
func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// AppendTable adds the stored form of t to b: the same form as a message's headers, for
// other formats that hold tables.
func AppendTable(b []byte, t Table) []byte { return appendTable(b, t) }

// appendTable writes fields in the order that they have: a table is stored as its publisher sent it.
func appendTable(b []byte, t Table) []byte {
	b = binary.AppendUvarint(b, uint64(len(t)))
	for i := range t {
		b = appendString(b, t[i].Name)
		b = appendValue(b, &t[i].Value)
	}
	return b
}

// appendValue writes the kind and what that needs. Numbers are little-endian and have the kind's size, so
// that readers in other languages keep the type.
func appendValue(b []byte, v *Value) []byte {
	b = append(b, byte(v.kind))
	switch v.kind {
	case KindNull, kindEnd:
	case KindBool, KindInt8, KindUint8:
		b = append(b, byte(v.num))
	case KindInt16, KindUint16:
		b = binary.LittleEndian.AppendUint16(b, uint16(v.num))
	case KindInt32, KindUint32, KindFloat32:
		b = binary.LittleEndian.AppendUint32(b, uint32(v.num))
	case KindInt64, KindUint64, KindFloat64, KindTimestamp:
		b = binary.LittleEndian.AppendUint64(b, v.num)
	case KindDecimal:
		b = append(b, v.scale)
		b = binary.LittleEndian.AppendUint32(b, uint32(v.num))
	case KindString, KindBytes:
		b = appendString(b, v.str)
	case KindTable:
		t, _ := v.AsTable()
		b = appendTable(b, t)
	case KindArray:
		a, _ := v.AsArray()
		b = binary.AppendUvarint(b, uint64(len(a)))
		for i := range a {
			b = appendValue(b, &a[i])
		}
	}
	return b
}

// tableSize is len(appendTable(nil, t)) without the bytes.
func tableSize(t Table) int {
	n := uvarintSize(uint64(len(t)))
	for i := range t {
		n += stringSize(t[i].Name) + valueSize(&t[i].Value)
	}
	return n
}

// valueSize counts what appendValue writes.
func valueSize(v *Value) int {
	n := 1
	switch v.kind {
	case KindNull, kindEnd:
	case KindBool, KindInt8, KindUint8:
		n++
	case KindInt16, KindUint16:
		n += 2
	case KindInt32, KindUint32, KindFloat32:
		n += 4
	case KindInt64, KindUint64, KindFloat64, KindTimestamp:
		n += 8
	case KindDecimal:
		n += 5
	case KindString, KindBytes:
		n += stringSize(v.str)
	case KindTable:
		t, _ := v.AsTable()
		n += tableSize(t)
	case KindArray:
		a, _ := v.AsArray()
		n += uvarintSize(uint64(len(a)))
		for i := range a {
			n += valueSize(&a[i])
		}
	}
	return n
}

func stringSize(s string) int { return uvarintSize(uint64(len(s))) + len(s) }

// uvarintSize counts what binary.AppendUvarint writes.
func uvarintSize(n uint64) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
