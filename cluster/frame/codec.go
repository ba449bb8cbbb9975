package frame

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/grpcmem"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Measure finds out the size of the frame in bytes, and returns it. It is called once, before the frame is
// written.
func (f *Out) Measure() int {
	switch {
	case f.Call != nil:
		f.Call.size = sizeAppend(&f.Call.Args)
		f.size = bytesSize(fieldRaftCall, sizeCall(f.Call))
	case f.Answer != nil:
		f.size = bytesSize(fieldRaftAnswer, sizeAnswer(f.Answer))
	default:
		f.size = proto.Size(f.Frame)
	}
	return f.size
}

// append writes exactly the bytes that Measure has counted, if the frame was not changed since.
func (f *Out) append(b []byte) ([]byte, error) {
	switch {
	case f.Call != nil:
		b = appendLength(b, fieldRaftCall, sizeCall(f.Call))
		return writeCall(b, f.Call), nil
	case f.Answer != nil:
		b = appendLength(b, fieldRaftAnswer, sizeAnswer(f.Answer))
		return writeAnswer(b, f.Answer), nil
	default:
		return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, f.Frame)
	}
}

// Codec writes connection messages by hand and hands all others on. gRPC knows it as "proto":
// its bytes are that.
type Codec struct {
	encoding.CodecV2
	pool *grpcmem.Pool
}

// NewCodec returns a codec on a pool of buffers.
func NewCodec(p *grpcmem.Pool) Codec { return Codec{CodecV2: grpcmem.NewCodec(p), pool: p} }

// Marshal implements encoding.CodecV2.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ours := v.(*OutMessage)
	if !ours {
		return c.CodecV2.Marshal(v)
	}
	size := 0
	for i := range m.Frames {
		size += bytesSize(fieldFrames, m.Frames[i].size)
	}
	buf := c.pool.Get(size)
	b := (*buf)[:0]
	var err error
	for i := range m.Frames {
		b = appendLength(b, fieldFrames, m.Frames[i].size)
		if b, err = m.Frames[i].append(b); err != nil {
			c.pool.Put(buf)
			return nil, err
		}
	}
	if len(b) != size {
		c.pool.Put(buf)
		return nil, fmt.Errorf("transport: a message has %d bytes, measured were %d: a frame was changed after it was queued", len(b), size)
	}
	*buf = b
	return mem.BufferSlice{mem.NewBuffer(buf, c.pool)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ours := v.(*InMessage)
	if !ours {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(c.pool)
	defer buf.Free()
	return m.read(buf.ReadOnlyData())
}

var errMalformed = errors.New("transport: malformed message on a link")

// read takes a message apart. Nothing refers to b afterwards.
func (m *InMessage) read(b []byte) error {
	clear(m.Frames)
	m.Frames, m.Bytes = m.Frames[:0], len(b)
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		if number != fieldFrames || kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return errMalformed
			}
			b = b[n:]
			continue
		}
		frame, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		f, err := m.readFrame(frame)
		if err != nil {
			return err
		}
		m.Frames = append(m.Frames, f)
	}
	return nil
}

// readFrame reads AppendEntries and its answer by hand if they are written as this
// package writes them, and everything else by package proto.
func (m *InMessage) readFrame(b []byte) (In, error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n > 0 && kind == protowire.BytesType && (number == fieldRaftCall || number == fieldRaftAnswer) {
		if inner, used := protowire.ConsumeBytes(b[n:]); used == len(b)-n {
			if number == fieldRaftCall {
				if f, ok := readCall(inner, m.names); ok {
					return f, nil
				}
			} else if f, ok := readAnswer(inner, m.names); ok {
				return f, nil
			}
		}
	}
	f := &nodev1.Frame{}
	if err := proto.Unmarshal(b, f); err != nil {
		return In{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return In{Frame: f}, nil
}
