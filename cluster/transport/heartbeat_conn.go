package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// A connection for heartbeats comes to the same port as all others. With TLS it is told by the
// protocol that is negotiated, without it by its first bytes, with which no HTTP/2 begins.
// Then each end sends a HeartbeatHello, and the rest are Pings; each message has its length in
// two bytes before it, the higher one first.
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

// openHeartbeats opens the connection for heartbeats to where the streams go. It ends with the
// peer connection.
func (pc *peerConn) openHeartbeats() (*heartbeatConn, error) {
	m := pc.p.m
	fault := func(err error) (*heartbeatConn, error) {
		return nil, fmt.Errorf("transport: heartbeats to node %q at %s: %w", pc.p.node, pc.address, err)
	}
	conn, err := pc.dialConn(pc.ctx)
	if err != nil {
		return fault(err)
	}
	raw := conn
	context.AfterFunc(pc.ctx, func() { _ = raw.Close() })
	if m.config.TLS != nil {
		c := m.dialTLS(pc.p.node)
		c.NextProtos = []string{heartbeatProtocol}
		secure := tls.Client(conn, c)
		if err := secure.HandshakeContext(pc.ctx); err != nil {
			return fault(err)
		}
		conn = secure
	} else if _, err := conn.Write([]byte(heartbeatPreface)); err != nil {
		return fault(err)
	}
	mine := m.identity.values()
	mine[mdWanted] = string(pc.p.node)
	if err := writeHeartbeat(conn, &nodev1.HeartbeatHello{Identity: mine}); err != nil {
		return fault(err)
	}
	l := &heartbeatConn{conn: conn, reader: newHeartbeatReader(conn)}
	var theirs nodev1.HeartbeatHello
	if err := readHeartbeat(l.reader, &theirs); err != nil {
		return fault(err)
	}
	if theirs.GetRefusal() != "" {
		return fault(errors.New(theirs.GetRefusal()))
	}
	remote, err := m.identity.check(metadata.New(theirs.GetIdentity()))
	if err != nil {
		return nil, err
	}
	if remote.Node != pc.remote.Node || remote.Epoch != pc.remote.Epoch {
		return fault(fmt.Errorf("node %q in epoch %d answers, its links are to node %q in epoch %d",
			remote.Node, remote.Epoch, pc.remote.Node, pc.remote.Epoch))
	}
	return l, nil
}

// acceptHeartbeats serves a connection for heartbeats that a peer opened.
func (m *Mux) acceptHeartbeats(conn net.Conn, info callerInfo) {
	shut := func() { _ = conn.Close() } // whoever reads or writes learns of it
	defer shut()
	defer context.AfterFunc(m.ctx, shut)()
	late := time.AfterFunc(m.config.DialTimeout, shut)
	r := newHeartbeatReader(conn)
	var hello nodev1.HeartbeatHello
	if readHeartbeat(r, &hello) != nil {
		return
	}
	from, err := m.admitHeartbeats(metadata.New(hello.GetIdentity()), info)
	if err != nil {
		m.log.Debug("refused heartbeats", "error", err)
		_ = writeHeartbeat(conn, &nodev1.HeartbeatHello{Refusal: err.Error()}) // who does not read it is refused all the same
		return
	}
	if writeHeartbeat(conn, &nodev1.HeartbeatHello{Identity: m.identity.values()}) != nil || !late.Stop() {
		return
	}
	m.log.Debug("heartbeats ended", "peer", from.Node, "error", m.pulse(from.Node).serve(conn, r, from))
}

// admitHeartbeats is admit for a connection without calls.
func (m *Mux) admitHeartbeats(md metadata.MD, info callerInfo) (Peer, error) {
	from, err := m.identity.check(md)
	if err != nil {
		return from, err
	}
	if err := m.certified(grpcpeer.NewContext(m.ctx, &grpcpeer.Peer{AuthInfo: info}), from); err != nil {
		return from, err
	}
	if wanted := id.NodeID(first(md, mdWanted)); wanted != m.config.Node {
		return from, m.identity.misled(from.Node, string(wanted))
	}
	if from.Node > m.config.Node {
		return from, refusal{codes.InvalidArgument, fmt.Sprintf(
			"of nodes %q and %q the first one opens the connection for heartbeats", m.config.Node, from.Node)}
	}
	info.conn.Admit()
	return from, m.noteEpoch(from)
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
