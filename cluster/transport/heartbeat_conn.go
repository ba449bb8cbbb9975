package transport

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
// Then each end sends a HeartbeatHello, and the rest are Pings. Two bytes before each message hold its length, the
// higher one first.
const (
	heartbeatProtocol = "quorate-beat/1"
	heartbeatPreface  = "QUORATE1"
	maxHeartbeatBytes = 4 << 10
	heartbeatHead     = 2
)

// writeHeartbeat writes the message and its length at once, so that one packet has both.
func writeHeartbeat(w io.Writer, m proto.Message) error {
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

// readHeartbeat peeks before it reads, so that a message is parsed where the reader has it.
func readHeartbeat(r *bufio.Reader, m proto.Message) error {
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

func newHeartbeatReader(c net.Conn) *bufio.Reader {
	return bufio.NewReaderSize(c, heartbeatHead+maxHeartbeatBytes)
}

// heartbeatConn is the connection for heartbeats that belongs to a peer connection.
type heartbeatConn struct {
	conn   net.Conn
	reader *bufio.Reader
}

// headed is a connection of which some bytes were read already. One goroutine reads.
type headed struct {
	net.Conn
	head []byte
}

// Read implements net.Conn.
func (h *headed) Read(b []byte) (int, error) {
	if len(h.head) == 0 {
		return h.Conn.Read(b)
	}
	n := copy(b, h.head)
	h.head = h.head[n:]
	return n, nil
}
