package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Decode reads one stored message that fills b. Body aliases b; all strings share one
// copy of the head, so they outlive b. Bytes that Append cannot have written are refused
// with an error that names the part and its place; decoding and appending again gives
// the same bytes.
func Decode(b []byte) (*Message, error) {
	m := new(Message)
	if err := DecodeInto(m, b); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeInto is Decode into a message of the caller's; what it had is gone, also after an
// error.
func DecodeInto(m *Message, b []byte) error {
	*m = Message{}
	headLen, bodyLen, err := lengths(b)
	if err != nil {
		return err
	}
	m.Body = b[prefixBytes+headLen : prefixBytes+headLen+bodyLen : prefixBytes+headLen+bodyLen]
	d := decoder{s: string(b[prefixBytes : prefixBytes+headLen]), base: prefixBytes}
	d.message(m)
	if d.err == nil && d.at != len(d.s) {
		d.fail("head", fmt.Errorf("%d bytes left over", len(d.s)-d.at))
	}
	return d.err
}

// BodySize returns the size of the body of a stored message, in bytes, without decoding
// the rest.
func BodySize(b []byte) (int, error) {
	_, bodyLen, err := lengths(b)
	return bodyLen, err
}

// lengths reads the prefix, and refuses bytes that are more or fewer than it says.
func lengths(b []byte) (headLen, bodyLen int, err error) {
	if len(b) < prefixBytes {
		return 0, 0, fmt.Errorf("message: %d bytes, a stored message has at least %d", len(b), prefixBytes)
	}
	if b[0] != formatVersion {
		return 0, 0, fmt.Errorf("message: format version %d, this build reads version %d", b[0], formatVersion)
	}
	head, body := uint64(binary.LittleEndian.Uint32(b[1:])), uint64(binary.LittleEndian.Uint32(b[5:]))
	if want := prefixBytes + head + body; uint64(len(b)) != want {
		return 0, 0, fmt.Errorf("message: %d bytes, its prefix says %d", len(b), want)
	}
	return int(head), int(body), nil
}

// DecodeTable reads a table written by AppendTable from the front of b and returns the
// bytes after it. Strings are copies.
func DecodeTable(b []byte) (t Table, rest []byte, err error) {
	d := decoder{s: string(b)}
	t = d.table("table", 1)
	if d.err != nil {
		return nil, nil, d.err
	}
	return t, b[d.at:], nil
}

var (
	errShort     = errors.New("cut short")
	errUvarint   = errors.New("malformed number")
	errTooDeep   = fmt.Errorf("nested more than %d levels deep", MaxTableDepth)
	errUndefined = errors.New("undefined bits set")
)

// decoder walks over s; after the first error it returns zero values.
type decoder struct {
	s    string
	at   int
	base int // offset of s in the caller's bytes, for error texts
	err  error
}

// fail keeps the first error. It moves to the end, so that nothing more is read.
func (d *decoder) fail(part string, err error) {
	if d.err == nil {
		d.err = fmt.Errorf("message: %s at byte %d: %w", part, d.base+d.at, err)
		d.at = len(d.s)
	}
}

// message refuses bits that this build does not know: it would lose what they stand for.
func (d *decoder) message(m *Message) {
	has := Presence(d.uint(2, "presence bits"))
	if has&^allPresence != 0 {
		d.fail("presence bits", errUndefined)
		return
	}
	d.properties(&m.Properties, has)
	if has&HasHeaders != 0 {
		m.Headers = d.limitedTable("headers")
	}
	m.Exchange = d.string("exchange")
	parts := d.uint(1, "parts")
	if parts&^allParts != 0 {
		d.fail("parts", errUndefined)
		return
	}
	if parts&partKeys != 0 {
		m.RoutingKeys = d.strings("routing keys")
		bcc := d.uvarint("BCC count")
		if len(m.RoutingKeys) == 0 || bcc > uint64(len(m.RoutingKeys)) {
			d.fail("BCC count", fmt.Errorf("%d of %d routing keys", bcc, len(m.RoutingKeys)))
			return
		}
		m.BCCCount = int(bcc)
	}
	if parts&partDeaths != 0 {
		d.deaths(m)
	}
	if parts&partAnnotations != 0 {
		if m.Annotations = d.limitedTable("annotations"); len(m.Annotations) == 0 {
			d.fail("annotations", errors.New("present and empty"))
		}
	}
}

// properties reads in the order in which appendProperties writes.
func (d *decoder) properties(p *Properties, has Presence) {
	p.Has = has
	text := func(bit Presence, part string) string {
		if has&bit == 0 {
			return ""
		}
		return d.string(part)
	}
	p.ContentType = text(HasContentType, "content_type")
	p.ContentEncoding = text(HasContentEncoding, "content_encoding")
	if has&HasDeliveryMode != 0 {
		p.DeliveryMode = uint8(d.uint(1, "delivery_mode"))
	}
	if has&HasPriority != 0 {
		p.Priority = uint8(d.uint(1, "priority"))
	}
	p.CorrelationID = text(HasCorrelationID, "correlation_id")
	p.ReplyTo = text(HasReplyTo, "reply_to")
	p.Expiration = text(HasExpiration, "expiration")
	p.MessageID = text(HasMessageID, "message_id")
	if has&HasTimestamp != 0 {
		p.Timestamp = d.uint(8, "timestamp")
	}
	p.Type = text(HasType, "type")
	p.UserID = text(HasUserID, "user_id")
	p.AppID = text(HasAppID, "app_id")
}

// deaths reads what appendDeath and appendOrigin write.
func (d *decoder) deaths(m *Message) {
	n := d.uvarint("deaths")
	if n == 0 || n > MaxDeaths {
		d.fail("deaths", fmt.Errorf("%d entries, want 1 to %d", n, MaxDeaths))
		return
	}
	m.Deaths = make([]Death, 0, d.capacity(n))
	for range n {
		if d.err != nil {
			return
		}
		e := Death{
			Queue:       d.string("death queue"),
			Reason:      d.string("death reason"),
			Count:       d.uvarint("death count"),
			FirstTimeMs: d.varint("death first time"),
			LastTimeMs:  d.varint("death last time"),
			Exchange:    d.string("death exchange"),
			RoutingKeys: d.strings("death routing keys"),
		}
		if e.HasTTL = d.bool("death ttl"); e.HasTTL {
			e.TTLMs = d.varint("death ttl")
		}
		e.DeliveryCount = d.uint32("death delivery_count")
		e.AcquiredCount = d.uint32("death acquired_count")
		m.Deaths = append(m.Deaths, e)
	}
	m.FirstDeath, m.LastDeath = d.origin("first death"), d.origin("last death")
}

func (d *decoder) origin(part string) DeathOrigin {
	return DeathOrigin{Queue: d.string(part), Reason: d.string(part), Exchange: d.string(part)}
}

// limitedTable refuses a table above MaxHeaderBytes, which Validate lets no publisher store.
func (d *decoder) limitedTable(part string) Table {
	start := d.at
	t := d.table(part, 1)
	if n := d.at - start; d.err == nil && n > MaxHeaderBytes {
		d.fail(part, fmt.Errorf("%d bytes, the limit is %d", n, MaxHeaderBytes))
	}
	return t
}

// table bounds fields and depth before it makes anything: the bytes may come from a damaged disk.
func (d *decoder) table(part string, depth int) Table {
	n := d.uvarint(part)
	if d.err != nil || n == 0 {
		return nil
	}
	if n > MaxHeaders {
		d.fail(part, fmt.Errorf("%d fields, the limit is %d", n, MaxHeaders))
		return nil
	}
	if depth > MaxTableDepth {
		d.fail(part, errTooDeep)
		return nil
	}
	t := make(Table, 0, d.capacity(n))
	for range n {
		if d.err != nil {
			return nil
		}
		name := d.string(part)
		t = append(t, Field{name, d.value(part, depth)})
	}
	return t
}

// value reads what appendValue writes.
func (d *decoder) value(part string, depth int) Value {
	kind := Kind(d.uint(1, part))
	v := Value{kind: kind}
	switch kind {
	case KindNull:
	case KindBool:
		if d.bool(part) {
			v.num = 1
		}
	case KindInt8:
		v.num = uint64(int64(int8(d.uint(1, part))))
	case KindUint8:
		v.num = d.uint(1, part)
	case KindInt16:
		v.num = uint64(int64(int16(d.uint(2, part))))
	case KindUint16:
		v.num = d.uint(2, part)
	case KindInt32:
		v.num = uint64(int64(int32(d.uint(4, part))))
	case KindUint32, KindFloat32:
		v.num = d.uint(4, part)
	case KindInt64, KindUint64, KindFloat64, KindTimestamp:
		v.num = d.uint(8, part)
	case KindDecimal:
		v.scale = uint8(d.uint(1, part))
		v.num = uint64(int64(int32(d.uint(4, part))))
	case KindString, KindBytes:
		v.str = d.string(part)
	case KindTable:
		v.nest = &nest{table: d.table(part, depth+1)}
	case KindArray:
		v.nest = &nest{array: d.array(part, depth+1)}
	default:
		d.fail(part, fmt.Errorf("unknown type %d", kind))
	}
	return v
}

// array bounds the depth as table does.
func (d *decoder) array(part string, depth int) []Value {
	n := d.uvarint(part)
	if d.err != nil || n == 0 {
		return nil
	}
	if depth > MaxTableDepth {
		d.fail(part, errTooDeep)
		return nil
	}
	a := make([]Value, 0, d.capacity(n))
	for range n {
		if d.err != nil {
			return nil
		}
		a = append(a, d.value(part, depth))
	}
	return a
}

// maxPreallocated is the most elements that room is made for before they are read, so
// that nested false counts cannot claim memory that their bytes do not justify.
const maxPreallocated = 64

func (d *decoder) capacity(n uint64) int {
	return int(min(n, uint64(len(d.s)-d.at), maxPreallocated))
}

// uint reads size bytes, little-endian.
func (d *decoder) uint(size int, part string) uint64 {
	if len(d.s)-d.at < size {
		d.fail(part, errShort)
		return 0
	}
	var n uint64
	for i := range size {
		n |= uint64(d.s[d.at+i]) << (8 * i)
	}
	d.at += size
	return n
}

// bool refuses all but 0 and 1, so that a message has one form only.
func (d *decoder) bool(part string) bool {
	n := d.uint(1, part)
	if n > 1 {
		d.fail(part, fmt.Errorf("%d is no boolean", n))
	}
	return n == 1
}

// uint32 refuses what does not fit, so that no count is cut.
func (d *decoder) uint32(part string) uint32 {
	n := d.uvarint(part)
	if n > math.MaxUint32 {
		d.fail(part, errUvarint)
	}
	return uint32(n)
}

// uvarint accepts the shortest form only, so that a number has one encoding.
func (d *decoder) uvarint(part string) uint64 {
	var n uint64
	for shift := 0; d.at < len(d.s); shift += 7 {
		c := d.s[d.at]
		if shift == 63 && c > 1 || shift > 0 && c == 0 {
			d.fail(part, errUvarint)
			return 0
		}
		d.at++
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	d.fail(part, errShort)
	return 0
}

func (d *decoder) varint(part string) int64 {
	u := d.uvarint(part)
	return int64(u>>1) ^ -int64(u&1)
}

// string shares the bytes that are decoded; nothing changes those.
func (d *decoder) string(part string) string {
	n := d.uvarint(part)
	if n > uint64(len(d.s)-d.at) {
		d.fail(part, errShort)
		return ""
	}
	s := d.s[d.at : d.at+int(n)]
	d.at += int(n)
	return s
}

// strings trusts the count only as far as there are bytes: each string takes one at least.
func (d *decoder) strings(part string) []string {
	n := d.uvarint(part)
	if n > uint64(len(d.s)-d.at) {
		d.fail(part, errShort)
		return nil
	}
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = d.string(part)
	}
	return list
}
