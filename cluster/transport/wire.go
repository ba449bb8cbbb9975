package transport

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec for all other messages
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Link messages are read and written by hand: their bytes are those of LinkRequest and
// LinkResponse of proto/node/v1, which have the same form, but AppendEntries and its
// answer, nearly all there is, go straight between raft's structs and the wire. Tests
// hold both ways of writing equal.

// Field numbers of proto/node/v1 that are written by hand.
const (
	fieldFrames     = 1 // LinkRequest, LinkResponse
	fieldRaftCall   = 1 // Frame
	fieldRaftAnswer = 2
	fieldGroup      = 1 // RaftCall
	fieldCall       = 2
	fieldCallAppend = 3
	fieldAnswer     = 1 // RaftAnswer
	fieldAnsAppend  = 3
)

// outFrame is a frame that waits for its stream: one of three kinds. It must not be
// changed after it was queued.
type outFrame struct {
	frame  *nodev1.Frame
	call   *appendCall
	answer *appendAnswer
	size   int    // bytes of the frame
	unsent func() // if not nil: called once if no byte of the frame was given to the stream
}

// appendCall is a RaftCall with AppendEntries.
type appendCall struct {
	group, request uint64
	args           raft.AppendEntriesRequest
	size           int // bytes of the AppendEntriesRequest
}

// appendAnswer is a RaftAnswer with AppendEntries, without an error.
type appendAnswer struct {
	request uint64
	resp    raft.AppendEntriesResponse
}

// measure sets the size of the frame.
func (f *outFrame) measure() {
	switch {
	case f.call != nil:
		f.call.size = sizeAppend(&f.call.args)
		f.size = bytesSize(fieldRaftCall, sizeCall(f.call))
	case f.answer != nil:
		f.size = bytesSize(fieldRaftAnswer, sizeAnswer(f.answer))
	default:
		f.size = proto.Size(f.frame)
	}
}

func (f *outFrame) append(b []byte) ([]byte, error) {
	switch {
	case f.call != nil:
		b = appendLength(b, fieldRaftCall, sizeCall(f.call))
		return writeCall(b, f.call), nil
	case f.answer != nil:
		b = appendLength(b, fieldRaftAnswer, sizeAnswer(f.answer))
		return writeAnswer(b, f.answer), nil
	default:
		return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, f.frame)
	}
}

// outMessage is a link message to send.
type outMessage struct {
	frames []outFrame
}

// inFrame is a frame that was received: AppendEntries, its answer, or any other.
type inFrame struct {
	frame          *nodev1.Frame
	call           *raft.AppendEntriesRequest
	answer         *raft.AppendEntriesResponse
	group, request uint64
}

// inMessage is a link message that was received; it is used again for the next.
type inMessage struct {
	names  names
	frames []inFrame
	bytes  int
}

// codec writes link messages by hand and hands all others on. gRPC knows it as "proto":
// its bytes are that.
type codec struct {
	encoding.CodecV2
	pool *bufferPool
}

func newCodec() codec { return codec{CodecV2: encoding.GetCodecV2("proto"), pool: &bufferPool{}} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ours := v.(*outMessage)
	if !ours {
		return c.CodecV2.Marshal(v)
	}
	size := 0
	for i := range m.frames {
		size += bytesSize(fieldFrames, m.frames[i].size)
	}
	buf := c.pool.Get(size)
	b := (*buf)[:0]
	var err error
	for i := range m.frames {
		b = appendLength(b, fieldFrames, m.frames[i].size)
		if b, err = m.frames[i].append(b); err != nil {
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
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ours := v.(*inMessage)
	if !ours {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(c.pool)
	defer buf.Free()
	return m.read(buf.ReadOnlyData())
}

var errMalformed = errors.New("transport: malformed message on a link")

// read takes a message apart. Nothing refers to b afterwards.
func (m *inMessage) read(b []byte) error {
	clear(m.frames)
	m.frames, m.bytes = m.frames[:0], len(b)
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
		m.frames = append(m.frames, f)
	}
	return nil
}

// readFrame reads AppendEntries and its answer by hand if they are written as this
// package writes them, and everything else by package proto.
func (m *inMessage) readFrame(b []byte) (inFrame, error) {
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
		return inFrame{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return inFrame{frame: f}, nil
}
