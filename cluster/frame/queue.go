package frame

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/grpcmem"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// The frames that carry messages between gateways and leaders, QueueCommand and Deliveries, are written and read by
// hand: package proto would copy each message once more.

// measureFrame returns the size of a frame in bytes, and how many of them are written from where they are.
func measureFrame(f *nodev1.Frame) (size, shared int) {
	switch k := f.GetKind().(type) {
	case *nodev1.Frame_QueueCommand:
		size, shared = measureCommand(k.QueueCommand)
		return bytesSize(fieldQueueCommand, size), shared
	case *nodev1.Frame_Deliveries:
		size, shared = measureDeliveries(k.Deliveries)
		return bytesSize(fieldDeliveries, size), shared
	default:
		return proto.Size(f), 0
	}
}

// frame writes a frame of package proto.
func (w writer) frame(f *nodev1.Frame) (err error) {
	switch k := f.GetKind().(type) {
	case *nodev1.Frame_QueueCommand:
		size, _ := measureCommand(k.QueueCommand)
		w.B = appendLength(w.B, fieldQueueCommand, size)
		w.command(k.QueueCommand)
	case *nodev1.Frame_Deliveries:
		size, _ := measureDeliveries(k.Deliveries)
		w.B = appendLength(w.B, fieldDeliveries, size)
		w.deliveries(k.Deliveries)
	default:
		w.B, err = proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(w.B, f)
	}
	return err
}

// measureCommand must count what command writes, field by field.
func measureCommand(c *nodev1.QueueCommand) (size, shared int) {
	size = uintSize(1, c.GetRequest()) + uintSize(2, c.GetQueue()) + dataSize(3, c.GetHeader()) + boolSize(c.GetDeferrable())
	shared = grpcmem.Shared(c.GetHeader())
	for _, b := range c.GetBodies() {
		size += bytesSize(4, len(b))
		shared += grpcmem.Shared(b)
	}
	return size, shared
}

// command writes the fields in the order of their numbers.
func (w writer) command(c *nodev1.QueueCommand) {
	w.B = appendUint(w.B, 1, c.GetRequest())
	w.B = appendUint(w.B, 2, c.GetQueue())
	w.data(3, c.GetHeader())
	for _, b := range c.GetBodies() {
		w.Data(4, b)
	}
	w.B = appendBool(w.B, 5, c.GetDeferrable())
}

// readCommand returns nil if the bytes are not as this package writes them.
func readCommand(s source) *nodev1.QueueCommand {
	var h holder
	bodies, shared := 0, 0
	ok := s.fields(func(protowire.Number, uint64) bool { return true }, func(field protowire.Number, v source) bool {
		if field == 4 {
			bodies++
		}
		shared += small(v)
		return true
	})
	if !ok {
		return nil
	}
	c := &nodev1.QueueCommand{}
	if bodies > 0 {
		c.Bodies = make([][]byte, 0, bodies)
	}
	h.shared = make([]byte, 0, shared)
	ok = s.fields(func(field protowire.Number, v uint64) bool {
		switch field {
		case 1:
			c.Request = v
		case 2:
			c.Queue = v
		case 5:
			c.Deferrable = v != 0
		default:
			return false
		}
		return true
	}, func(field protowire.Number, v source) bool {
		switch field {
		case 3:
			c.Header = h.hold(v)
		case 4:
			c.Bodies = append(c.Bodies, h.hold(v))
		default:
			return false
		}
		return true
	})
	if !ok {
		return nil
	}
	return c
}

// measureDeliveries must count what deliveries writes.
func measureDeliveries(d *nodev1.Deliveries) (size, shared int) {
	size = uintSize(1, d.GetQueue())
	for _, x := range d.GetDeliveries() {
		size += bytesSize(2, sizeDelivery(x))
		shared += grpcmem.Shared(x.GetMessage()) + grpcmem.Shared(x.GetAnnotations())
	}
	return size, shared
}

// sizeDelivery must count what deliveries writes of each, field by field.
func sizeDelivery(d *nodev1.Delivery) int {
	return uintSize(1, d.GetEpoch()) + uintSize(2, d.GetSession()) + uintSize(3, uint64(d.GetTag())) + uintSize(4, d.GetMsgId()) +
		uintSize(5, uint64(d.GetDeliveryCount())) + uintSize(6, uint64(d.GetAcquiredCount())) +
		dataSize(7, d.GetMessage()) + dataSize(8, d.GetAnnotations())
}

// deliveries writes the fields in the order of their numbers.
func (w writer) deliveries(d *nodev1.Deliveries) {
	w.B = appendUint(w.B, 1, d.GetQueue())
	for _, x := range d.GetDeliveries() {
		w.B = appendLength(w.B, 2, sizeDelivery(x))
		w.B = appendUint(w.B, 1, x.GetEpoch())
		w.B = appendUint(w.B, 2, x.GetSession())
		w.B = appendUint(w.B, 3, uint64(x.GetTag()))
		w.B = appendUint(w.B, 4, x.GetMsgId())
		w.B = appendUint(w.B, 5, uint64(x.GetDeliveryCount()))
		w.B = appendUint(w.B, 6, uint64(x.GetAcquiredCount()))
		w.data(7, x.GetMessage())
		w.data(8, x.GetAnnotations())
	}
}

// readDeliveries returns nil if the bytes are not as this package writes them.
func readDeliveries(s source) *nodev1.Deliveries {
	d := &nodev1.Deliveries{}
	ok := s.fields(func(field protowire.Number, v uint64) bool {
		d.Queue = v
		return field == 1
	}, func(field protowire.Number, v source) bool {
		x := readDelivery(v)
		d.Deliveries = append(d.Deliveries, x)
		return field == 2 && x != nil
	})
	if !ok {
		return nil
	}
	return d
}

// readDelivery returns nil if the bytes are not as this package writes them. Each message has memory of its own: a
// client that does not read one would keep those of all others.
func readDelivery(s source) *nodev1.Delivery {
	d := &nodev1.Delivery{}
	ok := s.fields(func(field protowire.Number, v uint64) bool {
		switch field {
		case 1:
			d.Epoch = v
		case 2:
			d.Session = v
		case 3:
			d.Tag = uint32(v)
		case 4:
			d.MsgId = v
		case 5:
			d.DeliveryCount = uint32(v)
		case 6:
			d.AcquiredCount = uint32(v)
		default:
			return false
		}
		return true
	}, func(field protowire.Number, v source) bool {
		switch field {
		case 7:
			d.Message = v.clone()
		case 8:
			d.Annotations = v.clone()
		default:
			return false
		}
		return true
	})
	if !ok {
		return nil
	}
	return d
}
