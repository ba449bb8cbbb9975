package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/gate"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// acceptCredentials secure the connections that peers open. A caller that is refused gets the
// reason, and the refusal is logged with it.
type acceptCredentials struct {
	credentials.TransportCredentials
	m *Mux
}

// credentials also see the first bytes of callers where TLS is off.
func (m *Mux) credentials() credentials.TransportCredentials {
	if m.config.TLS != nil {
		return acceptCredentials{credentials.NewTLS(m.acceptTLS()), m}
	}
	return acceptCredentials{insecure.NewCredentials(), m}
}

// Clone implements credentials.TransportCredentials.
func (a acceptCredentials) Clone() credentials.TransportCredentials { return a }

// ServerHandshake implements credentials.TransportCredentials. It keeps connections for
// heartbeats to itself.
func (a acceptCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := gate.From(raw).AcknowledgeWithin(a.m.config.acknowledgeWithin()); err != nil {
		return nil, nil, err
	}
	if conn := gate.From(raw); conn != nil {
		pulse.RepeatEvenly(conn.TCPConn)
	}
	if a.m.config.TLS == nil {
		head := make([]byte, len(pulse.Preface))
		n, err := io.ReadFull(raw, head)
		switch {
		case err != nil && n == 0:
			return nil, nil, err
		case string(head) == pulse.Preface:
			return a.heartbeats(raw, callerInfo{conn: gate.From(raw)})
		}
		conn, info, err := a.TransportCredentials.ServerHandshake(&lookedAt{Conn: &headed{Conn: raw, head: head[:n]}, look: a.plain})
		return conn, callerInfo{info, gate.From(raw)}, err
	}
	looked := &lookedAt{Conn: raw, keep: true}
	looked.look = func(b []byte, err error) error {
		if len(b) == 0 || b[0] == recordHandshake {
			return err
		}
		_, _ = raw.Write(plainRefused()) // a caller that ignores it is refused too
		return refusal{codes.Unauthenticated, fmt.Sprintf("a caller speaks without TLS to node %q: %s", a.m.config.Node, noTLS)}
	}
	conn, info, err := a.TransportCredentials.ServerHandshake(looked)
	looked.keep = false
	if err == nil {
		if s, is := info.(credentials.TLSInfo); is && s.State.NegotiatedProtocol == pulse.Protocol {
			return a.heartbeats(conn, callerInfo{info, gate.From(raw)})
		}
		return conn, callerInfo{info, gate.From(raw)}, nil
	}
	a.m.refusals.refused(err)
	linger(raw)
	return nil, nil, err
}

// heartbeats takes a connection for heartbeats away from gRPC.
func (a acceptCredentials) heartbeats(conn net.Conn, info callerInfo) (net.Conn, credentials.AuthInfo, error) {
	a.m.running.Go(func() { a.m.acceptHeartbeats(conn, info) })
	return nil, nil, credentials.ErrConnDispatched
}

// plain examines the first bytes that a caller sends to a node without TLS.
func (a acceptCredentials) plain(b []byte, err error) error {
	if len(b) > 1 && b[0] == recordHandshake && b[1] == recordMajor {
		err = refusal{codes.Unauthenticated, fmt.Sprintf("a caller speaks TLS to node %q, which does not: %s", a.m.config.Node, noTLS)}
		a.m.refusals.refused(err)
	}
	return err
}

// acceptHeartbeats serves a connection for heartbeats that a peer opened.
func (m *Mux) acceptHeartbeats(conn net.Conn, info callerInfo) {
	shut := func() { _ = conn.Close() } // whoever reads or writes learns of it
	defer shut()
	defer context.AfterFunc(m.ctx, shut)()
	late := time.AfterFunc(m.config.DialTimeout, shut)
	r := pulse.NewReader(conn)
	var hello nodev1.HeartbeatHello
	if pulse.Read(r, &hello) != nil {
		return
	}
	from, err := m.admitHeartbeats(metadata.New(hello.GetIdentity()), info)
	if err != nil {
		m.log.Debug("refused heartbeats", "error", err)
		_ = pulse.Write(conn, &nodev1.HeartbeatHello{Refusal: err.Error()}) // a caller that ignores it is refused too
		return
	}
	if pulse.Write(conn, &nodev1.HeartbeatHello{Identity: m.identity.values()}) != nil || !late.Stop() {
		return
	}
	m.log.Debug("heartbeats ended", "peer", from.Node, "error", m.serveHeartbeats(m.pulses.Of(from.Node), conn, r, from))
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
