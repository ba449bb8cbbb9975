package grpcapi

import (
	"io"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxSharedDepth bounds how deep in a message shared looks for large fields; a body is one deep.
const maxSharedDepth = 4

// decode decodes a message and frees its bytes.
func (r *receiver) decode(compressed byte, data mem.BufferSlice, m any) error {
	defer func() { data.Free() }()
	if compressed != 0 {
		plain, err := r.decompress(data)
		if err != nil {
			return err
		}
		data.Free()
		data = plain
	}
	if f, ok := m.(*publishFrame); ok {
		return unreadable(f.read(data, r.s.memory))
	}
	return unreadable(r.s.codec.Unmarshal(data, m))
}

// decodeLarge decodes a message without copying its large fields: afterwards they refer to data.
func (r *receiver) decodeLarge(compressed byte, data []byte, m any) error {
	to, ok := m.(proto.Message)
	if compressed != 0 || !ok {
		return r.decode(compressed, mem.BufferSlice{mem.SliceBuffer(data)}, m)
	}
	proto.Reset(to)
	return unreadable(shared{above: windowBytes}.decode(data, to.ProtoReflect(), 0))
}

// shared decodes like proto.Unmarshal, but byte fields of more than a number of bytes refer to the
// data instead of being copied. A second copy of a large body would take a processor for
// milliseconds, and as much memory again.
type shared struct{ above int }

// decode decodes data into m. depth is how deep m is in the message.
func (s shared) decode(data []byte, m protoreflect.Message, depth int) error {
	from := 0 // start of what is not decoded yet
	for at := 0; at < len(data); {
		number, kind, tag := protowire.ConsumeTag(data[at:])
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(number, kind, data[at+tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		next := at + tag + size
		if kind == protowire.BytesType && size > s.above {
			value, _ := protowire.ConsumeBytes(data[at+tag : next])
			if set := s.field(m, number, depth); set != nil {
				if err := merge(data[from:at], m); err != nil {
					return err
				}
				if err := set(slices.Clip(value)); err != nil {
					return err
				}
				from = next
			}
		}
		at = next
	}
	return merge(data[from:], m)
}

// field returns a function that sets a field of m without a copy; nil: fields of this kind are
// copied.
func (s shared) field(m protoreflect.Message, number protowire.Number, depth int) func(value []byte) error {
	field := m.Descriptor().Fields().ByNumber(number)
	switch {
	case field == nil || field.IsMap():
	case field.Kind() == protoreflect.BytesKind && !field.IsList():
		return func(value []byte) error {
			m.Set(field, protoreflect.ValueOfBytes(value))
			return nil
		}
	case field.Kind() == protoreflect.MessageKind && depth < maxSharedDepth:
		return func(value []byte) error {
			if field.IsList() {
				return s.decode(value, m.Mutable(field).List().AppendMutable().Message(), depth+1)
			}
			return s.decode(value, m.Mutable(field).Message(), depth+1)
		}
	}
	return nil
}

// merge decodes some fields into m, in addition to those that m has.
func merge(data []byte, m protoreflect.Message) error {
	if len(data) == 0 {
		return nil
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(data, m.Interface())
}

// unreadable returns the error about a message that is not encoded as its type requires.
func unreadable(err error) error {
	if err == nil {
		return nil
	}
	return status.Errorf(codes.Internal, "a message cannot be read: %v", err)
}

// decompress decompresses a message. The result may not be larger than uncompressed messages may
// be.
func (r *receiver) decompress(data mem.BufferSlice) (mem.BufferSlice, error) {
	name := r.raw.RecvCompress()
	c := encoding.GetCompressor(name)
	if name == "" || name == encoding.Identity || c == nil {
		return nil, status.Errorf(codes.Unimplemented, "a message is compressed with %q, which this server does not know", name)
	}
	from := data.Reader()
	defer func() { _ = from.Close() }()
	in, err := c.Decompress(from)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "a message cannot be decompressed: %v", err)
	}
	plain, err := io.ReadAll(io.LimitReader(in, int64(r.most)+1))
	switch {
	case err != nil:
		return nil, status.Errorf(codes.Internal, "a message cannot be decompressed: %v", err)
	case len(plain) > r.most:
		return nil, status.Errorf(codes.ResourceExhausted, "a decompressed message is larger than the limit of %d bytes", r.most)
	}
	return mem.BufferSlice{mem.SliceBuffer(plain)}, nil
}
