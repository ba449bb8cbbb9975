// Package frame has the frames that two nodes of a cluster exchange on a stream, and their bytes.
//
// Nearly all that travels is AppendEntries and its answer, and messages between gateways and leaders. They go
// straight between structs and the wire; all other frames are written by package proto. Either way the bytes are
// those of LinkRequest and LinkResponse of proto/node/v1, which have the same form. Tests hold both ways of writing
// equal.
//
// Large data, as of entries and messages, is copied once on its way: when a frame is read, from the connection's
// buffers into memory of its own. A frame that is sent refers to it, and so does gRPC until it has written it. So
// nobody may ever change data that was in a frame, or use its memory again; the collector frees it.
package frame

import (
	"bytes"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/grpcmem"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Field numbers of proto/node/v1 that are written by hand.
const (
	fieldFrames       = 1 // LinkRequest, LinkResponse
	fieldRaftCall     = 1 // Frame
	fieldRaftAnswer   = 2
	fieldQueueCommand = 3
	fieldDeliveries   = 5
	fieldGroup        = 1 // RaftCall
	fieldCall         = 2
	fieldCallAppend   = 3
	fieldAnswer       = 1 // RaftAnswer
	fieldAnsAppend    = 3
)

// Out is a frame that waits for its stream: one of three kinds. It must not be
// changed after it was queued; the data that it refers to must never be changed.
type Out struct {
	Frame  *nodev1.Frame
	Call   *AppendCall
	Answer *AppendAnswer
	Unsent func() // if not nil: called once if no byte of the frame was given to the stream
	size   int    // bytes of the frame, by Measure
	shared int    // of them those that are sent from where they are
}

// AppendCall is a RaftCall with AppendEntries.
type AppendCall struct {
	Group, Request uint64
	Args           raft.AppendEntriesRequest
	size           int // bytes of the AppendEntriesRequest, by Measure
}

// AppendAnswer is a RaftAnswer with AppendEntries, without an error.
type AppendAnswer struct {
	Request  uint64
	Response raft.AppendEntriesResponse
}

// Size returns the frame's bytes, as Measure found them.
func (f *Out) Size() int { return f.size }

// OutMessage is a message to send on a stream: frames in order, each of them measured.
type OutMessage struct {
	Frames []Out

	writer grpcmem.Writer
}

// In is a frame that was received: AppendEntries, its answer, or any other.
type In struct {
	Frame          *nodev1.Frame
	Call           *raft.AppendEntriesRequest
	Answer         *raft.AppendEntriesResponse
	Group, Request uint64 // of the call or answer
}

// names are the bytes that headers on a connection nearly always have: the peer's id. They are
// shared, nobody changes them.
type names []byte

// share saves an allocation for each header.
func (n names) share(b []byte) []byte {
	if bytes.Equal(n, b) {
		return n
	}
	return bytes.Clone(b)
}

// InMessage is a message that was received on a stream; it is used again for the next.
type InMessage struct {
	Frames []In
	Bytes  int // of the whole message

	names names
}

// NewInMessage returns a message to receive into, on a stream with the peer.
func NewInMessage(peer id.NodeID) *InMessage { return &InMessage{names: names(peer)} }
