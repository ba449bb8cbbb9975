package grpcapi

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/internal/grpcmem"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// deliveryParts is what measure finds out about a delivery, for write: its size, and the parts that package proto
// writes. It can be used again.
type deliveryParts struct {
	size          int
	exchange, key string
	rawKey        []byte
	properties    brokerv1.Properties
	deaths        []*brokerv1.Death
	annotations   *brokerv1.Table
}

// measure returns the size of a delivery, which must stay unchanged until it is written. It must count what write
// writes, field by field.
func (p *deliveryParts) measure(d *broker.Delivery) int {
	m := &d.Message
	p.exchange = valid(m.Exchange)
	p.key, p.rawKey = shown(m.PrimaryKey())
	setProperties(&p.properties, m)
	p.size = uintSize(1, d.ID) + dataSize(2, len(p.exchange)) + dataSize(3, len(p.key)) +
		lengthSize(4, proto.Size(&p.properties)) + dataSize(5, len(m.Body)) + uintSize(6, protowire.EncodeBool(d.Redelivered)) +
		uintSize(7, uint64(d.DeliveryCount)) + uintSize(8, uint64(d.AcquiredCount)) + dataSize(11, len(p.rawKey))
	for i := range m.Deaths {
		p.deaths = append(p.deaths, toDeath(&m.Deaths[i]))
		p.size += lengthSize(9, proto.Size(p.deaths[i]))
	}
	if p.annotations = toTable(m.Annotations); p.annotations != nil {
		p.size += lengthSize(10, proto.Size(p.annotations))
	}
	return p.size
}

// write writes the fields in the order of their numbers, as package proto would write brokerv1.Delivery.
func (p *deliveryParts) write(w *grpcmem.Writer, d *broker.Delivery) (err error) {
	w.B = appendUint(w.B, 1, d.ID)
	w.B = appendText(w.B, 2, p.exchange)
	w.B = appendText(w.B, 3, p.key)
	if w.B, err = appendPart(w.B, 4, &p.properties); err != nil {
		return err
	}
	if len(d.Message.Body) > 0 {
		w.Data(5, d.Message.Body)
	}
	w.B = appendUint(w.B, 6, protowire.EncodeBool(d.Redelivered))
	w.B = appendUint(w.B, 7, uint64(d.DeliveryCount))
	w.B = appendUint(w.B, 8, uint64(d.AcquiredCount))
	for _, death := range p.deaths {
		if w.B, err = appendPart(w.B, 9, death); err != nil {
			return err
		}
	}
	if p.annotations != nil {
		if w.B, err = appendPart(w.B, 10, p.annotations); err != nil {
			return err
		}
	}
	if len(p.rawKey) > 0 {
		w.Data(11, p.rawKey)
	}
	return nil
}

// release drops what belongs to a message.
func (p *deliveryParts) release() {
	p.exchange, p.key, p.rawKey, p.annotations = "", "", nil, nil
	p.properties.Reset()
	clear(p.deaths)
	p.deaths = p.deaths[:0]
}

// uintSize is 0 for 0, which is not written.
func uintSize(number protowire.Number, v uint64) int {
	if v == 0 {
		return 0
	}
	return protowire.SizeTag(number) + protowire.SizeVarint(v)
}

// dataSize is the size of a field of n bytes, 0 for none, which are not written.
func dataSize(number protowire.Number, n int) int {
	if n == 0 {
		return 0
	}
	return lengthSize(number, n)
}

// appendUint leaves 0 out.
func appendUint(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

// appendText leaves out what is empty.
func appendText(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
}

// appendPart appends a message whose size is measured.
func appendPart(b []byte, number protowire.Number, m proto.Message) ([]byte, error) {
	options := proto.MarshalOptions{UseCachedSize: true}
	return options.MarshalAppend(appendLength(b, number, options.Size(m)), m)
}
