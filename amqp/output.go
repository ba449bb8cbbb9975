package amqp

import (
	"crypto/tls"
	"net"

	"github.com/quorate/quorate/amqp/wire"
)

const (
	// sharedBody is how large a body must be to be sent without a copy. To copy less costs less than one more piece.
	sharedBody = 4 << 10
	// lentBuffer is how large a buffer may be to be lent again: a step of the writer has takeBytes of messages, and
	// their frames' heads.
	lentBuffer = 4 * takeBytes
)

// output is what a writer sends in one step: bytes of its own, with large bodies between them, which nobody ever
// changes. The memory of its own bytes is lent for the step, so that an idle connection has none.
type output struct {
	buf    []byte
	lent   *[]byte // has buf's memory
	large  []large
	shared int // bytes of large

	all, unit [][]byte // memory of parts and write
}

// large is a part of a body that belongs at a place of an output's own bytes.
type large struct {
	at   int
	data []byte
}

// begin borrows memory.
func (o *output) begin(s *Server) {
	var is bool
	if o.lent, is = s.buffers.Get().(*[]byte); !is {
		o.lent = new([]byte)
	}
	o.buf = (*o.lent)[:0]
}

// end gives the memory back, and forgets the bodies.
func (o *output) end(s *Server) {
	if *o.lent = o.buf[:0]; cap(o.buf) <= lentBuffer {
		s.buffers.Put(o.lent)
	}
	clear(o.large)
	clear(o.all)
	clear(o.unit)
	o.buf, o.lent, o.large, o.shared = nil, nil, o.large[:0], 0
}

// size returns how many bytes there are to send.
func (o *output) size() int { return len(o.buf) + o.shared }

// body appends a body in frames.
func (o *output) body(channel uint16, body []byte, frameMax uint32) {
	if len(body) < sharedBody {
		o.buf = wire.AppendBody(o.buf, channel, body, frameMax)
		return
	}
	o.shared += len(body)
	for len(body) > 0 {
		n := wire.BodyPart(len(body), frameMax)
		o.buf = wire.AppendFrameHead(o.buf, wire.FrameBody, channel, n)
		o.large = append(o.large, large{len(o.buf), body[:n]})
		o.buf = wire.AppendFrameEnd(o.buf)
		body = body[n:]
	}
}

// parts returns all that there is to send, in order.
func (o *output) parts() [][]byte {
	o.all = o.all[:0]
	from := 0
	for i := range o.large {
		l := &o.large[i]
		o.all = append(o.all, o.buf[from:l.at], l.data) // a frame's head is before each
		from = l.at
	}
	if from < len(o.buf) {
		o.all = append(o.all, o.buf[from:])
	}
	return o.all
}

// write sends up to most bytes of parts in one piece, and takes them off.
func (o *output) write(c *conn, parts *[][]byte, most int) (int, error) {
	o.unit = o.unit[:0]
	for rest := *parts; ; rest = rest[1:] {
		if *parts = rest; len(rest) == 0 || most == 0 {
			break
		}
		n := min(len(rest[0]), most)
		o.unit = append(o.unit, rest[0][:n])
		if most -= n; n < len(rest[0]) {
			rest[0] = rest[0][n:]
			break
		}
	}
	if len(o.unit) == 1 {
		return c.nc.Write(o.unit[0])
	}
	if _, secure := c.nc.(*tls.Conn); secure { // each write is a record of its own
		return o.writeJoined(c)
	}
	b := net.Buffers(o.unit)
	n, err := b.WriteTo(c.nc)
	return int(n), err
}

// writeJoined writes a unit in one call.
func (o *output) writeJoined(c *conn) (int, error) {
	lent, is := c.s.buffers.Get().(*[]byte)
	if !is {
		lent = new([]byte)
	}
	b := (*lent)[:0]
	for _, p := range o.unit {
		b = append(b, p...)
	}
	n, err := c.nc.Write(b)
	if *lent = b[:0]; cap(b) <= lentBuffer {
		c.s.buffers.Put(lent)
	}
	return n, err
}
