package grpcmem

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that Codec takes the place of
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Codec writes and reads protobuf messages as gRPC's codec of that name does, in buffers of a Pool. It may be used
// concurrently.
type Codec struct {
	encoding.CodecV2 // gRPC's own, for the name and for what is no protobuf message
	pool             *Pool
}

// NewCodec returns a codec on a pool.
func NewCodec(p *Pool) Codec { return Codec{CodecV2: encoding.GetCodecV2("proto"), pool: p} }

// Marshal implements encoding.CodecV2. It fails if the message is changed meanwhile.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := proto.Size(m)
	buf := c.pool.Get(size)
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buf)[:0], m)
	if err == nil && len(b) != size { // what is behind it was another message's
		err = fmt.Errorf("grpcmem: %s has %d bytes, measured were %d: it was changed meanwhile", m.ProtoReflect().Descriptor().FullName(), len(b), size)
	}
	if err != nil {
		c.pool.Put(buf)
		return nil, err
	}
	*buf = b
	return mem.BufferSlice{mem.NewBuffer(buf, c.pool)}, nil
}

// Unmarshal implements encoding.CodecV2. The message keeps nothing of data.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(c.pool)
	defer buf.Free()
	return proto.Unmarshal(buf.ReadOnlyData(), m)
}
