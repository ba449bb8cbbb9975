package grpcapi

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/broker"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// maxBatch limits the messages of one request of a Publish stream, and the results of one response.
const maxBatch = 256

var errUTF8 = errors.New("a text is not valid UTF-8")

// publishFrame is a request of a Publish stream. It is decoded by hand, because the generated types cost more than all
// else that is done with a small message. What it has refers to the request's bytes, until release.
type publishFrame struct {
	numbered               // the request's own
	more     []numbered    // of the field more, at most maxBatch
	further  int           // messages of that field that are too many
	bytes    int           // of the request
	producer []byte        // nil: none
	batches  bool          // the caller reads results in batches
	data     mem.Buffer    // nil: none
	names    nameCache     // of the stream
	props    propertiesBox // of the message that was decoded last
}

// numbered is a message and its sequence, not decoded yet.
type numbered struct {
	sequence uint64
	message  []byte
	there    bool // it has a message, perhaps an empty one
	merged   bool // message is a copy, of a field that came more than once
	other    bool // it has fields that only a request has
}

// propertiesBox is used again for each message that has properties.
type propertiesBox struct {
	to   brokerv1.Properties
	used bool
}

// read takes a request over. It keeps data until release, unless it fails. What came in pieces is put together in a
// buffer of the pool.
func (f *publishFrame) read(data mem.BufferSlice, pool mem.BufferPool) error {
	f.data, f.bytes = data.MaterializeToBuffer(pool), data.Len()
	err := f.parse(f.data.ReadOnlyData())
	if err != nil {
		f.release()
	}
	return err
}

// release frees the request's bytes.
func (f *publishFrame) release() {
	if f.data != nil {
		f.data.Free()
	}
	clear(f.more)
	f.numbered, f.more, f.further, f.producer, f.batches, f.data, f.bytes = numbered{}, f.more[:0], 0, nil, false, nil, 0
}

// parse finds the messages of a request.
func (f *publishFrame) parse(b []byte) error {
	return fields(b, func(number protowire.Number, v fieldValue) error {
		if own, err := f.set(number, v); own || err != nil {
			return err
		}
		switch {
		case number == 3 && v.kind == protowire.BytesType:
			f.producer = v.bytes
		case number == 4 && v.kind == protowire.VarintType:
			f.batches = v.number != 0
		case number == 5 && v.kind == protowire.BytesType && len(f.more) == maxBatch:
			f.further++ // not kept: two bytes may be a message
		case number == 5 && v.kind == protowire.BytesType:
			var n numbered
			err := fields(v.bytes, func(number protowire.Number, v fieldValue) error {
				own, err := n.set(number, v)
				n.other = !own && number <= 5 || n.other
				return err
			})
			f.more = append(f.more, n)
			return err
		}
		return nil
	})
}

// set takes a field that each message has, and reports whether it is one.
func (n *numbered) set(number protowire.Number, v fieldValue) (own bool, err error) {
	switch {
	case number == 1 && v.kind == protowire.VarintType:
		n.sequence = v.number
	case number == 2 && v.kind == protowire.BytesType && n.there:
		return true, n.merge(v.bytes)
	case number == 2 && v.kind == protowire.BytesType:
		n.message, n.there = v.bytes, true
	default:
		return false, nil
	}
	return true, nil
}

// merge adds a message field that came once more, as protobuf merges messages. Each piece must be whole by itself: two
// broken ones can make a whole one together.
func (n *numbered) merge(piece []byte) error {
	whole := func(protowire.Number, fieldValue) error { return nil }
	if n.merged {
		n.message = append(n.message, piece...)
	} else {
		if err := fields(n.message, whole); err != nil {
			return err
		}
		n.message, n.merged = slices.Concat(n.message, piece), true
	}
	return fields(piece, whole)
}

// count returns the number of messages.
func (f *publishFrame) count() int { return 1 + len(f.more) }

// at returns a message; 0 is the request's own.
func (f *publishFrame) at(i int) *numbered {
	if i == 0 {
		return &f.numbered
	}
	return &f.more[i-1]
}

// publish decodes a message into out, whose body refers to the request's bytes. unreadable is an error that ends the
// stream, as one of the encoding does; invalid one of this message alone.
func (f *publishFrame) publish(out *broker.Publish, n *numbered) (unreadable, invalid error) {
	*out = broker.Publish{}
	f.props.reset()
	var raw []byte
	text := func(to *string, b []byte) error {
		if !utf8.Valid(b) {
			return errUTF8
		}
		*to = f.names.of(b)
		return nil
	}
	err := fields(n.message, func(number protowire.Number, v fieldValue) error {
		switch {
		case v.kind == protowire.BytesType && number == 1:
			return text(&out.VHost, v.bytes)
		case v.kind == protowire.BytesType && number == 2:
			return text(&out.Exchange, v.bytes)
		case v.kind == protowire.BytesType && number == 3:
			return text(&out.RoutingKey, v.bytes)
		case v.kind == protowire.BytesType && number == 4:
			f.props.used = true
			return proto.UnmarshalOptions{Merge: true, RecursionLimit: f.propertiesDepth(n)}.Unmarshal(v.bytes, &f.props.to)
		case v.kind == protowire.BytesType && number == 5:
			out.Body = v.bytes
		case v.kind == protowire.VarintType && number == 6:
			out.Mandatory = v.number != 0
		case v.kind == protowire.VarintType && number == 7:
			out.Delay.AtMs = int64(v.number)
		case v.kind == protowire.VarintType && number == 8:
			out.Delay.AfterMs = int64(v.number)
		case v.kind == protowire.BytesType && number == 9:
			raw = v.bytes
		}
		return nil
	})
	if err != nil {
		return err, nil
	}
	out.VHost = vhostOf(out.VHost)
	if len(raw) > 0 {
		out.RoutingKey = string(raw)
	}
	if f.props.used {
		return nil, setPublishProperties(out, &f.props.to)
	}
	return nil, nil
}

// propertiesDepth is how deep the properties of a message may be nested: protobuf limits the depth of the whole request.
func (f *publishFrame) propertiesDepth(n *numbered) int {
	if n == &f.numbered {
		return protowire.DefaultRecursionLimit - 2 // the request and the message
	}
	return protowire.DefaultRecursionLimit - 3 // and the request in the field more
}

// reset makes the box empty.
func (b *propertiesBox) reset() {
	if b.used {
		b.to.Reset()
		b.used = false
	}
}

// fieldValue is a field's value as it is encoded.
type fieldValue struct {
	kind   protowire.Type
	number uint64 // of a varint
	bytes  []byte // of a field with a length
}

// fields calls f with each field of an encoded message, in order.
func fields(b []byte, f func(protowire.Number, fieldValue) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if number > protowire.MaxValidNumber { // ConsumeTag takes it, and proto.Unmarshal does not
			return fmt.Errorf("a field has number %d; want 1 to %d", number, protowire.MaxValidNumber)
		}
		b = b[n:]
		v := fieldValue{kind: kind}
		switch kind {
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := f(number, v); err != nil {
			return err
		}
	}
	return nil
}

// Limits of names.
const (
	maxNames     = 256
	maxNameBytes = 255
)

// nameCache has the names that a stream's messages had, so that each need not be copied for each message.
type nameCache struct{ known map[string]string }

// of returns a name as a string.
func (n *nameCache) of(b []byte) string {
	if s, ok := n.known[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > maxNameBytes {
		return s
	}
	if n.known == nil || len(n.known) == maxNames {
		n.known = make(map[string]string)
	}
	n.known[s] = s
	return s
}
