package pulse

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"google.golang.org/protobuf/proto"
)

// A connection for heartbeats comes to the same port as all others. With TLS it is recognized by the
// protocol that is negotiated, without it by its first bytes, with which no HTTP/2 begins.
// Then each end sends a HeartbeatHello, and the rest are Pings; each message has its length in
// two bytes before it, the higher one first.
const (
	Protocol          = "quorate-beat/1"
	Preface           = "QUORATE1"
	maxHeartbeatBytes = 4 << 10
	heartbeatHead     = 2
)

// Write writes the message and its length at once, so that one packet has both.
func Write(w io.Writer, m proto.Message) error {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, heartbeatHead, 64), m)
	if err != nil {
		return err
	}
	if len(b)-heartbeatHead > maxHeartbeatBytes {
		return fmt.Errorf("transport: a message of %d bytes between heartbeats, %d is the limit", len(b)-heartbeatHead, maxHeartbeatBytes)
	}
	binary.BigEndian.PutUint16(b, uint16(len(b)-heartbeatHead)) // limited above
	_, err = w.Write(b)
	return err
}

// Read peeks before it reads, so that a message is parsed where the reader has it.
func Read(r *bufio.Reader, m proto.Message) error {
	head, err := r.Peek(heartbeatHead)
	if err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint16(head))
	if size > maxHeartbeatBytes {
		return fmt.Errorf("transport: a message of %d bytes between heartbeats, %d is the limit", size, maxHeartbeatBytes)
	}
	b, err := r.Peek(heartbeatHead + size)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(b[heartbeatHead:], m); err != nil {
		return fmt.Errorf("transport: between heartbeats: %w", err)
	}
	_, err = r.Discard(heartbeatHead + size)
	return err
}

// NewReader returns a reader on which Read finds whole messages.
func NewReader(c net.Conn) *bufio.Reader {
	return bufio.NewReaderSize(c, heartbeatHead+maxHeartbeatBytes)
}
