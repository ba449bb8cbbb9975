// Package wire turns bytes of AMQP 0-9-1 into frames, methods, content headers and field
// tables, and back, with RabbitMQ's extensions (exchange bindings, confirms, basic.nack,
// connection.blocked and update-secret, its types of fields). Structs of methods are
// generated from the specification by tools/amqpgen.
//
// The package only computes; package amqp owns sockets and the state of connections. Results refer
// to the input bytes only where a comment says so. A value may be used concurrently only if nobody
// changes it. Errors in the input are *Error with the reply code of the specification, never
// panics.
package wire

import (
	"encoding/binary"
	"fmt"
)

// ProtocolHeader is the first thing that a client of this version sends. The server sends it to
// other clients before it closes the connection.
const ProtocolHeader = "AMQP\x00\x00\x09\x01"

// FrameType is the kind of a frame.
type FrameType uint8

// The kinds of frames.
const (
	FrameMethod    FrameType = 1
	FrameHeader    FrameType = 2
	FrameBody      FrameType = 3
	FrameHeartbeat FrameType = 8
)

// Sizes of frames, in bytes.
const (
	// FrameOverhead is the size of a frame without its payload; frame-max counts both.
	FrameOverhead = frameHead + 1
	// MinFrameMax is the smallest frame-max that may be agreed on, and the limit until then.
	MinFrameMax = 4096

	frameHead = 7
	frameEnd  = 0xCE
)

// Frame is one frame. Its payload refers to the bytes that it was parsed from.
type Frame struct {
	Type    FrameType
	Channel uint16
	Payload []byte
}

// ParseFrame reads the first frame of b and returns its length in bytes. The length is 0 if the
// frame is incomplete; need is then how many bytes b must have before another call is worthwhile.
// frameMax is the size agreed on in connection.tune, in bytes; 0 is no limit. Errors: FrameError
// for a size above it, an unknown type or a wrong last byte; nothing after such an error can be
// read.
func ParseFrame(b []byte, frameMax uint32) (f Frame, n, need int, err error) {
	if len(b) < frameHead {
		return Frame{}, 0, frameHead, nil
	}
	f.Type, f.Channel = FrameType(b[0]), binary.BigEndian.Uint16(b[1:])
	switch f.Type {
	case FrameMethod, FrameHeader, FrameBody, FrameHeartbeat:
	default:
		return Frame{}, 0, 0, fault(FrameError, "a frame on channel %d has the unknown type %d", f.Channel, b[0])
	}
	size := binary.BigEndian.Uint32(b[3:])
	if frameMax > 0 && uint64(size)+FrameOverhead > uint64(frameMax) {
		return Frame{}, 0, 0, fault(FrameError, "a frame on channel %d has %d bytes, frame_max is %d",
			f.Channel, uint64(size)+FrameOverhead, frameMax)
	}
	n = FrameOverhead + int(size)
	if len(b) < n {
		return Frame{}, 0, n, nil
	}
	if b[n-1] != frameEnd {
		return Frame{}, 0, 0, fault(FrameError, "a frame on channel %d ends in byte %d, want %d", f.Channel, b[n-1], frameEnd)
	}
	f.Payload = b[frameHead : n-1 : n-1]
	return f, n, n, nil
}

// AppendFrameHead appends the head of a frame whose payload has the given size. The payload and
// AppendFrameEnd must follow.
func AppendFrameHead(b []byte, t FrameType, channel uint16, size int) []byte {
	b = append(b, byte(t))
	b = binary.BigEndian.AppendUint16(b, channel)
	return binary.BigEndian.AppendUint32(b, uint32(size)) // frames are limited by frame-max
}

// AppendFrameEnd appends the byte that ends each frame.
func AppendFrameEnd(b []byte) []byte { return append(b, frameEnd) }

// AppendHeartbeat appends a heartbeat.
func AppendHeartbeat(b []byte) []byte {
	return AppendFrameEnd(AppendFrameHead(b, FrameHeartbeat, 0, 0))
}

// sealFrame completes the frame that begins at an offset of b.
func sealFrame(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at+3:], uint32(len(b)-at-frameHead)) // frames are limited by frame-max
	return append(b, frameEnd)
}

// ReplyCode is why a channel or connection is closed, or a message is returned.
type ReplyCode uint16

// Error is a fault in the peer's input.
type Error struct {
	Code   ReplyCode
	Reason string
}

// Error returns the text of a close: the name of the code and the reason.
func (e *Error) Error() string { return e.Code.String() + " - " + e.Reason }

func fault(code ReplyCode, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}
