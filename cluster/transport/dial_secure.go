package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/cluster/certificate"
	"github.com/quorate/quorate/cluster/pulse"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// dialCredentials secure one connection and end it with the precise
// reason if that fails.
type dialCredentials struct {
	credentials.TransportCredentials
	pc *peerConn
}

// credentials ends the connection with the precise reason where the handshake fails, which gRPC would hide.
func (pc *peerConn) credentials() credentials.TransportCredentials {
	if m := pc.l; m.config.TLS != nil {
		return dialCredentials{credentials.NewTLS(m.dialTLS(pc.node)), pc}
	}
	return dialCredentials{insecure.NewCredentials(), pc}
}

// Clone implements credentials.TransportCredentials.
func (d dialCredentials) Clone() credentials.TransportCredentials { return d }

// ClientHandshake implements credentials.TransportCredentials.
func (d dialCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := d.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, d.fault(err)
	}
	return &lookedAt{Conn: conn, look: d.first}, info, nil
}

// first examines the first bytes that the peer sends: in TLS 1.3 the peer refuses this node's certificate only then.
func (d dialCredentials) first(b []byte, err error) error {
	if d.pc.l.config.TLS != nil {
		return d.fault(err)
	}
	if len(b) > 1 && b[0] == recordAlert && b[1] == recordMajor {
		err = refusal{codes.Unauthenticated, fmt.Sprintf("node %q at %s speaks TLS, node %q does not: %s",
			d.pc.node, d.pc.address, d.pc.l.config.Node, noTLS)}
		d.pc.cancel(err)
	}
	return err
}

// fault ends the connection with the precise reason, if this knows it: a refusal, unless it
// may pass by itself.
func (d dialCredentials) fault(err error) error {
	var record tls.RecordHeaderError
	var known refusal
	var other certificate.OtherNodeError
	alert, alerted := alertOf(err)
	node, address := d.pc.node, d.pc.address
	switch {
	case errors.As(err, &other):
		err = fmt.Errorf("transport: node %q at %s: %s; or, if that lasts, correct the address of %q", node, address, other.Text, node)
		d.pc.cancel(err)
		return err
	case errors.As(err, &known):
		known.text = fmt.Sprintf("node %q at %s: %s", node, address, known.text)
	case errors.As(err, &record):
		known = refusal{codes.Unauthenticated, fmt.Sprintf("node %q at %s does not speak TLS, node %q does: %s",
			node, address, d.pc.l.config.Node, noTLS)}
	case alerted:
		known = refusal{codes.Unauthenticated, fmt.Sprintf("node %q at %s does not take the certificate of node %q (%s): the log of node %q says why",
			node, address, d.pc.l.config.Node, alert, node)}
	default:
		return err
	}
	d.pc.cancel(known)
	return known
}

// openHeartbeats opens the connection for heartbeats to where the streams go. It ends with the
// peer connection.
func (pc *peerConn) openHeartbeats() (*heartbeatConn, error) {
	m := pc.l
	fault := func(err error) (*heartbeatConn, error) {
		return nil, fmt.Errorf("transport: heartbeats to node %q at %s: %w", pc.node, pc.address, err)
	}
	conn, err := pc.dialConn(pc.ctx)
	if err != nil {
		return fault(err)
	}
	raw := conn
	context.AfterFunc(pc.ctx, func() { _ = raw.Close() })
	if m.config.TLS != nil {
		c := m.dialTLS(pc.node)
		c.NextProtos = []string{pulse.Protocol}
		secure := tls.Client(conn, c)
		if err := secure.HandshakeContext(pc.ctx); err != nil {
			return fault(err)
		}
		conn = secure
	} else if _, err := conn.Write([]byte(pulse.Preface)); err != nil {
		return fault(err)
	}
	mine := m.identity.values()
	mine[mdWanted] = string(pc.node)
	if err := pulse.Write(conn, &nodev1.HeartbeatHello{Identity: mine}); err != nil {
		return fault(err)
	}
	l := &heartbeatConn{conn: conn, reader: pulse.NewReader(conn)}
	var theirs nodev1.HeartbeatHello
	if err := pulse.Read(l.reader, &theirs); err != nil {
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
