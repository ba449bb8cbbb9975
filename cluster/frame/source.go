package frame

import (
	"bytes"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// source is the bytes of a message, or a part of them, in the pieces in which they came. A copy of
// it is read on its own. It is valid as long as the pieces are: what is kept has to be cloned.
type source struct {
	cur  []byte          // what is left of the piece that is being read
	rest mem.BufferSlice // the pieces behind it
	left int             // bytes to read; cur and rest have as many at least
}

// advance goes on to the next piece if the one before is read. Something must be left.
func (s *source) advance() {
	for len(s.cur) == 0 {
		s.cur, s.rest = s.rest[0].ReadOnlyData(), s.rest[1:]
	}
}

// skip passes over n bytes, at most those that are left.
func (s *source) skip(n int) {
	for s.left -= n; n > 0; {
		s.advance()
		k := min(n, len(s.cur))
		s.cur, n = s.cur[k:], n-k
	}
}

// varint reads a number; false: it is cut off, or has more than 64 bits.
func (s *source) varint() (uint64, bool) {
	if v, n := protowire.ConsumeVarint(s.cur[:min(len(s.cur), s.left)]); n > 0 {
		s.cur, s.left = s.cur[n:], s.left-n
		return v, true
	}
	var b [10]byte // it may lie in two pieces
	n := 0
	for c := *s; n < len(b) && c.left > 0; n++ {
		c.advance()
		b[n] = c.cur[0]
		c.skip(1)
	}
	v, n := protowire.ConsumeVarint(b[:n])
	if n < 0 {
		return 0, false
	}
	s.skip(n)
	return v, true
}

// tag reads a field's number and type.
func (s *source) tag() (protowire.Number, protowire.Type, bool) {
	v, ok := s.varint()
	number, kind := protowire.DecodeTag(v)
	return number, kind, ok && number >= protowire.MinValidNumber
}

// bytes reads a length and as many bytes; false: there are fewer.
func (s *source) bytes() (source, bool) {
	n, ok := s.varint()
	if !ok || n > uint64(s.left) {
		return source{}, false
	}
	part := source{cur: s.cur, rest: s.rest, left: int(n)}
	s.skip(part.left)
	return part, true
}

// only returns the field of bytes that all that is left consists of; false: it consists of something else.
func (s source) only() (protowire.Number, source, bool) {
	number, kind, ok := s.tag()
	if !ok || kind != protowire.BytesType {
		return 0, source{}, false
	}
	part, ok := s.bytes()
	return number, part, ok && s.left == 0
}

// fields calls one of two functions for every field of a message; false: it is malformed,
// or has a field of another type, or one that the functions refuse.
func (s source) fields(number func(protowire.Number, uint64) bool, data func(protowire.Number, source) bool) bool {
	for s.left > 0 {
		field, kind, ok := s.tag()
		if !ok {
			return false
		}
		switch kind {
		case protowire.VarintType:
			if v, ok := s.varint(); !ok || !number(field, v) {
				return false
			}
		case protowire.BytesType:
			if v, ok := s.bytes(); !ok || !data(field, v) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// view returns what is left in one piece. It is the message's own memory, or a copy.
func (s source) view() []byte {
	if len(s.cur) >= s.left {
		return s.cur[:s.left:s.left]
	}
	return s.clone()
}

// clone returns a copy of what is left.
func (s source) clone() []byte {
	if len(s.cur) >= s.left {
		return bytes.Clone(s.cur[:s.left])
	}
	parts := make([][]byte, 0, len(s.rest)+1)
	for s.left > 0 {
		s.advance()
		k := min(len(s.cur), s.left)
		parts = append(parts, s.cur[:k])
		s.skip(k)
	}
	return bytes.Join(parts, nil) // it does not clear the memory before
}

// appendTo appends what is left.
func (s source) appendTo(b []byte) []byte {
	for s.left > 0 {
		s.advance()
		k := min(len(s.cur), s.left)
		b = append(b, s.cur[:k]...)
		s.skip(k)
	}
	return b
}

// smallBytes is up to which size data shares one piece of memory with the other data of its call or
// command; larger data has its own, so that it can be freed alone.
const smallBytes = 1 << 10

// holder gives data memory of its own.
type holder struct{ shared []byte }

// small returns how much of the shared memory data takes.
func small(data source) int {
	if data.left <= smallBytes {
		return data.left
	}
	return 0
}

// hold returns a copy of data.
func (h *holder) hold(data source) []byte {
	if data.left > smallBytes {
		return data.clone()
	}
	from := len(h.shared)
	h.shared = data.appendTo(h.shared)
	return h.shared[from:len(h.shared):len(h.shared)]
}
