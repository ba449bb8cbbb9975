package wire

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/quorate/quorate/message"
)

func appendOctet(b []byte, v uint8) []byte { return append(b, v) }

func appendShort(b []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(b, v) }

func appendLong(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

func appendLonglong(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// appendShortstr appends at most 255 bytes of s, cut between characters.
func appendShortstr(b []byte, s string) []byte {
	if len(s) > math.MaxUint8 {
		n := math.MaxUint8
		for n > math.MaxUint8-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	b = append(b, byte(len(s)))
	return append(b, s...)
}

// appendLongstr appends a length of four octets, then the bytes of s.
func appendLongstr(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s))) // the bounds of tables bound strings
	return append(b, s...)
}

// appendBits packs up to eight bits into one octet, the first in the lowest place (AMQP 0-9-1
// §4.2.5.2).
func appendBits(b []byte, bits ...bool) []byte {
	var octet byte
	for i, bit := range bits {
		if bit {
			octet |= 1 << i
		}
	}
	return append(b, octet)
}

// appendTable appends a table and writes its size over the four bytes kept free for it.
func appendTable(b []byte, t message.Table) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	for i := range t {
		b = appendShortstr(b, t[i].Name)
		b = appendValue(b, t[i].Value)
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4)) // tables are limited
	return b
}

// appendValue appends a field's value. Clients understand no form of an unsigned integer above the
// signed range, so its decimal digits are sent.
func appendValue(b []byte, v message.Value) []byte {
	switch v.Kind() {
	case message.KindNull:
		return append(b, 'V')
	case message.KindBool:
		is, _ := v.AsBool()
		return appendBits(append(b, 't'), is)
	case message.KindInt8, message.KindUint8, message.KindInt16, message.KindUint16, message.KindInt32,
		message.KindUint32, message.KindInt64, message.KindUint64:
		return appendInt(b, v)
	case message.KindFloat32:
		return appendLong(append(b, 'f'), uint32(v.FloatBits())) // its width
	case message.KindFloat64:
		return appendLonglong(append(b, 'd'), v.FloatBits())
	case message.KindDecimal:
		scale, unscaled, _ := v.AsDecimal()
		return appendLong(append(b, 'D', scale), uint32(unscaled)) // the bits
	case message.KindString:
		s, _ := v.AsString()
		return appendLongstr(append(b, 'S'), s)
	case message.KindBytes:
		s, _ := v.AsBytes()
		return appendLongstr(append(b, 'x'), s)
	case message.KindTimestamp:
		n, _ := v.AsUint()
		return appendLonglong(append(b, 'T'), n)
	case message.KindTable:
		t, _ := v.AsTable()
		return appendTable(append(b, 'F'), t)
	default:
		return appendArray(b, v)
	}
}

// appendArray appends an array with its type letter; the size covers the elements alone.
func appendArray(b []byte, v message.Value) []byte {
	a, _ := v.AsArray()
	b = append(b, 'A', 0, 0, 0, 0)
	at := len(b)
	for i := range a {
		b = appendValue(b, a[i])
	}
	binary.BigEndian.PutUint32(b[at-4:], uint32(len(b)-at)) // arrays are limited
	return b
}

// appendInt appends an integer in its own width, by RabbitMQ's letters. An unsigned 64-bit value
// beyond int64 has no letter and becomes a decimal string.
func appendInt(b []byte, v message.Value) []byte {
	n, ok := v.AsInt()
	if !ok {
		u, _ := v.AsUint()
		return appendLongstr(append(b, 'S'), strconv.FormatUint(u, 10))
	}
	bits := uint64(n) // the same bits; narrower types are cut below
	switch v.Kind() {
	case message.KindInt8:
		return append(b, 'b', byte(bits))
	case message.KindUint8:
		return append(b, 'B', byte(bits))
	case message.KindInt16:
		return appendShort(append(b, 's'), uint16(bits)) // its width
	case message.KindUint16:
		return appendShort(append(b, 'u'), uint16(bits)) // its width
	case message.KindInt32:
		return appendLong(append(b, 'I'), uint32(bits)) // its width
	case message.KindUint32:
		return appendLong(append(b, 'i'), uint32(bits)) // its width
	default:
		return appendLonglong(append(b, 'l'), bits)
	}
}
