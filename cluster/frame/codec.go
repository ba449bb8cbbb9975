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
	f.shared = 0
	switch {
	case f.Call != nil:
		f.Call.size = sizeAppend(&f.Call.Args)
		f.size = bytesSize(fieldRaftCall, sizeCall(f.Call))
		for _, e := range f.Call.Args.Entries {
			f.shared += grpcmem.Shared(e.Data) + grpcmem.Shared(e.Extensions)
		}
	case f.Answer != nil:
		f.size = bytesSize(fieldRaftAnswer, sizeAnswer(f.Answer))
	default:
		f.size, f.shared = measureFrame(f.Frame)
	}
	return f.size
}

// append writes exactly the bytes that Measure has counted, if the frame was not changed since.
func (f *Out) append(w writer) error {
	switch {
	case f.Call != nil:
		w.B = appendLength(w.B, fieldRaftCall, sizeCall(f.Call))
		w.call(f.Call)
		return nil
	case f.Answer != nil:
		w.B = appendLength(w.B, fieldRaftAnswer, sizeAnswer(f.Answer))
		w.B = writeAnswer(w.B, f.Answer)
		return nil
	default:
		return w.frame(f.Frame)
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

// Marshal implements encoding.CodecV2. The result refers to large data of the frames, which must never be
// changed, until gRPC has written it.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ours := v.(*OutMessage)
	if !ours {
		return c.CodecV2.Marshal(v)
	}
	size, shared := 0, 0
	for i := range m.Frames {
		size += bytesSize(fieldFrames, m.Frames[i].size)
		shared += m.Frames[i].shared
	}
	w := writer{&m.writer}
	w.Begin(c.pool, size-shared)
	for i := range m.Frames {
		w.B = appendLength(w.B, fieldFrames, m.Frames[i].size)
		if err := m.Frames[i].append(w); err != nil {
			w.Drop()
			return nil, err
		}
	}
	return w.Finish(size)
}

// Unmarshal implements encoding.CodecV2. Frames keep nothing of data.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ours := v.(*InMessage)
	if !ours {
		return c.CodecV2.Unmarshal(data, v)
	}
	return m.read(source{rest: data, left: data.Len()})
}

var errMalformed = errors.New("transport: malformed message on a link")

// read takes a message apart. Nothing refers to its bytes afterwards.
func (m *InMessage) read(s source) error {
	clear(m.Frames)
	m.Frames, m.Bytes = m.Frames[:0], s.left
	for s.left > 0 {
		field := s
		number, kind, ok := s.tag()
		if !ok {
			return errMalformed
		}
		if number != fieldFrames || kind != protowire.BytesType {
			all := field.view()
			_, _, n := protowire.ConsumeField(all)
			if n < 0 {
				return errMalformed
			}
			s = source{cur: all[n:], left: len(all) - n}
			continue
		}
		frame, ok := s.bytes()
		if !ok {
			return errMalformed
		}
		f, err := m.readFrame(frame)
		if err != nil {
			return err
		}
		m.Frames = append(m.Frames, f)
	}
	return nil
}

// readFrame reads the frames that carry most by hand if they are written as this package
// writes them, and everything else by package proto.
func (m *InMessage) readFrame(s source) (In, error) {
	if number, inner, ok := s.only(); ok {
		switch number {
		case fieldRaftCall:
			if f, ok := readCall(inner, m.names); ok {
				return f, nil
			}
		case fieldRaftAnswer:
			if f, ok := readAnswer(inner, m.names); ok {
				return f, nil
			}
		case fieldQueueCommand:
			if c := readCommand(inner); c != nil {
				return In{Frame: &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{QueueCommand: c}}}, nil
			}
		case fieldDeliveries:
			if d := readDeliveries(inner); d != nil {
				return In{Frame: &nodev1.Frame{Kind: &nodev1.Frame_Deliveries{Deliveries: d}}}, nil
			}
		default: // as below
		}
	}
	f := &nodev1.Frame{}
	if err := proto.Unmarshal(s.view(), f); err != nil {
		return In{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return In{Frame: f}, nil
}
