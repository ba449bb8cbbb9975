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

// A connection for beats comes to the same port as all others. With TLS it is told by the
// protocol that is negotiated, without it by its first bytes, with which no HTTP/2 begins.
// Then each end sends a BeatHello, and the rest are Pings; each message has its length in
// two bytes before it, the higher one first.
const (
	beatProtocol = "quorate-beat/1"
	beatPreface  = "QUORATE1"
	maxBeatBytes = 4 << 10
	beatHead     = 2
)

func writeBeat(w io.Writer, m proto.Message) error {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, beatHead, 64), m)
	if err != nil {
		return err
	}
	if len(b)-beatHead > maxBeatBytes {
		return fmt.Errorf("transport: a message of %d bytes between beats, %d is the limit", len(b)-beatHead, maxBeatBytes)
	}
	binary.BigEndian.PutUint16(b, uint16(len(b)-beatHead)) // limited above
	_, err = w.Write(b)
	return err
}

func readBeat(r *bufio.Reader, m proto.Message) error {
	head, err := r.Peek(beatHead)
	if err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint16(head))
	if size > maxBeatBytes {
		return fmt.Errorf("transport: a message of %d bytes between beats, %d is the limit", size, maxBeatBytes)
	}
	b, err := r.Peek(beatHead + size)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(b[beatHead:], m); err != nil {
		return fmt.Errorf("transport: between beats: %w", err)
	}
	_, err = r.Discard(beatHead + size)
	return err
}

func newBeatReader(c net.Conn) *bufio.Reader { return bufio.NewReaderSize(c, beatHead+maxBeatBytes) }

// beatLine is the connection for beats that belongs to a session.
type beatLine struct {
	conn   net.Conn
	reader *bufio.Reader
}

// openBeats opens the connection for beats to where the session's streams go. It ends with
// the session.
func (s *session) openBeats() (*beatLine, error) {
	m := s.p.m
	fault := func(err error) (*beatLine, error) {
		return nil, fmt.Errorf("transport: beats to node %q at %s: %w", s.p.node, s.address, err)
	}
	conn, err := s.dialConn(s.ctx)
	if err != nil {
		return fault(err)
	}
	raw := conn
	context.AfterFunc(s.ctx, func() { _ = raw.Close() })
	if m.config.TLS != nil {
		c := m.dialTLS(s.p.node)
		c.NextProtos = []string{beatProtocol}
		secure := tls.Client(conn, c)
		if err := secure.HandshakeContext(s.ctx); err != nil {
			return fault(err)
		}
		conn = secure
	} else if _, err := conn.Write([]byte(beatPreface)); err != nil {
		return fault(err)
	}
	mine := m.identity.values()
	mine[mdWanted] = string(s.p.node)
	if err := writeBeat(conn, &nodev1.BeatHello{Identity: mine}); err != nil {
		return fault(err)
	}
	l := &beatLine{conn: conn, reader: newBeatReader(conn)}
	var theirs nodev1.BeatHello
	if err := readBeat(l.reader, &theirs); err != nil {
		return fault(err)
	}
	if theirs.GetRefusal() != "" {
		return fault(errors.New(theirs.GetRefusal()))
	}
	remote, err := m.identity.check(metadata.New(theirs.GetIdentity()))
	if err != nil {
		return nil, err
	}
	if remote.Node != s.remote.Node || remote.Epoch != s.remote.Epoch {
		return fault(fmt.Errorf("node %q in epoch %d answers, its links are to node %q in epoch %d",
			remote.Node, remote.Epoch, s.remote.Node, s.remote.Epoch))
	}
	return l, nil
}

// acceptBeats serves a connection for beats that a peer opened.
func (m *Mux) acceptBeats(conn net.Conn, info callerInfo) {
	shut := func() { _ = conn.Close() } // whoever reads or writes learns of it
	defer shut()
	defer context.AfterFunc(m.ctx, shut)()
	late := time.AfterFunc(m.config.DialTimeout, shut)
	r := newBeatReader(conn)
	var hello nodev1.BeatHello
	if readBeat(r, &hello) != nil {
		return
	}
	from, err := m.admitBeats(metadata.New(hello.GetIdentity()), info)
	if err != nil {
		m.log.Debug("refused beats", "error", err)
		_ = writeBeat(conn, &nodev1.BeatHello{Refusal: err.Error()}) // who does not read it is refused all the same
		return
	}
	if writeBeat(conn, &nodev1.BeatHello{Identity: m.identity.values()}) != nil || !late.Stop() {
		return
	}
	m.log.Debug("beats ended", "peer", from.Node, "error", m.pulse(from.Node).serve(conn, r, from))
}

// admitBeats is admit for a connection without calls.
func (m *Mux) admitBeats(md metadata.MD, info callerInfo) (Peer, error) {
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
			"of nodes %q and %q the first one opens the connection for beats", m.config.Node, from.Node)}
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
