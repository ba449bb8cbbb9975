package wire

import (
	"encoding/binary"
	"math"

	"github.com/quorate/quorate/message"
)

// decoder reads fields; after the first error all reads return zero values.
type decoder struct {
	b     []byte
	text  string // the same bytes, if strings may refer to them
	at    int
	names *Names
	err   error
}

// fail keeps the first error and moves to the end, so that every later read finds nothing.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fault(SyntaxError, format, args...)
	}
	d.at = len(d.b)
}

// take returns the next n bytes, nil if there are fewer.
func (d *decoder) take(n int, what string) []byte {
	if n > len(d.b)-d.at {
		d.fail("%s of %d bytes at offset %d, %d are left", what, n, d.at, len(d.b)-d.at)
		return nil
	}
	b := d.b[d.at : d.at+n]
	d.at += n
	return b
}

// end returns the first error; leftover bytes are an error too.
func (d *decoder) end(what string) error {
	if d.err == nil && d.at < len(d.b) {
		d.fail("%d bytes are left over after %s", len(d.b)-d.at, what)
	}
	return d.err
}

// octet reads 1 byte; 0 after an error.
func (d *decoder) octet() uint8 {
	if b := d.take(1, "an octet"); b != nil {
		return b[0]
	}
	return 0
}

// short reads 2 bytes, big-endian; 0 after an error.
func (d *decoder) short() uint16 {
	if b := d.take(2, "a short integer"); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// long reads 4 bytes, big-endian; 0 after an error.
func (d *decoder) long() uint32 {
	if b := d.take(4, "a long integer"); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// longlong reads 8 bytes, big-endian; 0 after an error.
func (d *decoder) longlong() uint64 {
	if b := d.take(8, "a long long integer"); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) timestamp() uint64 { return d.longlong() }

func (d *decoder) shortstr() string { return d.str(int(d.octet()), "a short string") }

func (d *decoder) longstr() string { return d.str(d.size(), "a long string") }

// size reads the size of a string, table or array.
func (d *decoder) size() int {
	n := d.long()
	if n > math.MaxInt32 {
		d.fail("%d bytes at offset %d, %d are left", n, d.at, len(d.b)-d.at)
		return 0
	}
	return int(n)
}

// str reads n bytes as a string: part of text if the decoder has it, else through names, which
// saves the allocation of one seen before.
func (d *decoder) str(n int, what string) string {
	from := d.at
	b := d.take(n, what)
	switch {
	case len(b) == 0:
		return ""
	case d.text != "":
		return d.text[from:d.at]
	default:
		return d.names.get(b)
	}
}

// ParseTable reads the fields of a table that has no size in front, as in the response of mechanism
// AMQPLAIN. Errors: SyntaxError.
func ParseTable(b []byte) (message.Table, error) {
	if len(b) > math.MaxUint16 {
		return nil, fault(SyntaxError, "a table of %d bytes", len(b))
	}
	d := decoder{b: append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)}
	t := d.table()
	return t, d.end("a table")
}

func (d *decoder) table() message.Table { return d.tableAt(1) }

// within runs read on the next n bytes only.
func (d *decoder) within(n int, what string, read func()) {
	if n > len(d.b)-d.at {
		d.take(n, what)
		return
	}
	whole := d.b
	d.b = d.b[:d.at+n]
	read()
	if d.err == nil && d.at != len(d.b) {
		d.fail("%s ends within a field", what)
	}
	d.b = whole
	if d.err != nil {
		d.at = len(d.b)
	}
}

// tableAt reads a table at a nesting depth; 1 is the outermost. The bounds on fields and depth keep
// a small frame from costing much memory or stack.
func (d *decoder) tableAt(depth int) message.Table {
	size := d.size()
	if size == 0 || d.tooDeep(depth) {
		return nil
	}
	var t message.Table
	d.within(size, "a table", func() {
		for d.at < len(d.b) {
			if len(t) == message.MaxHeaders {
				d.fail("a table has more than %d fields", message.MaxHeaders)
				return
			}
			name := d.shortstr()
			t = append(t, message.Field{Name: name, Value: d.value(depth)})
		}
	})
	return t
}

// arrayAt reads an array under the same bounds as tableAt.
func (d *decoder) arrayAt(depth int) message.Value {
	size := d.size()
	if size == 0 || d.tooDeep(depth) {
		return message.Array()
	}
	var a []message.Value
	d.within(size, "an array", func() {
		for d.at < len(d.b) {
			if len(a) == message.MaxHeaders {
				d.fail("an array has more than %d elements", message.MaxHeaders)
				return
			}
			a = append(a, d.value(depth))
		}
	})
	return message.Array(a...)
}

// tooDeep fails the decoder where nesting exceeds what messages may store.
func (d *decoder) tooDeep(depth int) bool {
	if depth > message.MaxTableDepth {
		d.fail("tables are nested more than %d deep", message.MaxTableDepth)
		return true
	}
	return false
}

// value reads a field's value. It uses the type letters of RabbitMQ and its clients. In the
// specification some letters stand for another width, or for types that no client sends.
func (d *decoder) value(depth int) message.Value {
	switch kind := d.octet(); kind {
	case 't':
		return message.Bool(d.octet() != 0)
	case 'b':
		return message.Int8(int8(d.octet())) // the same bits
	case 'B':
		return message.Uint8(d.octet())
	case 's', 'U':
		return message.Int16(int16(d.short())) // the same bits
	case 'u':
		return message.Uint16(d.short())
	case 'I':
		return message.Int32(int32(d.long())) // the same bits
	case 'i':
		return message.Uint32(d.long())
	case 'l', 'L':
		return message.Int64(int64(d.longlong())) // the same bits
	case 'f':
		return message.Float32(math.Float32frombits(d.long()))
	case 'd':
		return message.Float64(math.Float64frombits(d.longlong()))
	case 'D':
		scale := d.octet()
		return message.Decimal(scale, int32(d.long())) // the same bits
	case 'S':
		return message.String(d.longstr())
	case 'x':
		return message.Bytes(d.take(d.size(), "a byte array"))
	case 'T':
		return message.Timestamp(d.longlong())
	case 'F':
		return message.TableValue(d.tableAt(depth + 1))
	case 'A':
		return d.arrayAt(depth + 1)
	case 'V':
		return message.Null()
	default:
		d.fail("a field has the unknown type %q", kind)
		return message.Null()
	}
}
