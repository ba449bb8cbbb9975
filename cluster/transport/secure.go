package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/quorate/quorate/cluster/certificate"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/gate"
)

const (
	// maxToldRefusals bounds the different reasons that are logged.
	maxToldRefusals = 100
	// lingerTime and lingerBytes bound what is read of a refused caller, so that it can
	// read why before its connection is reset.
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 64 << 10
)

// First bytes of a TLS record.
const (
	recordAlert     = 0x15
	recordHandshake = 0x16
	recordMajor     = 0x03
)

// plainRefused is the alert for callers without TLS: fatal, protocol_version.
func plainRefused() []byte { return []byte{recordAlert, recordMajor, 3, 0, 2, 2, 70} }

const noTLS = "set tls.peer.cert, tls.peer.key and tls.peer.ca on all nodes of the cluster, or on none"

// dialTLS is the TLS of a connection to a node. It checks the chain itself, because what
// the certificate must name is a URI, which crypto/tls does not look for.
func (m *Mux) dialTLS(to id.NodeID) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		InsecureSkipVerify:     true, //nolint:gosec // VerifyConnection does it, see above
		SessionTicketsDisabled: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, _ := m.config.TLS()
			return &own, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			return m.verify(s.PeerCertificates, x509.ExtKeyUsageServerAuth, to)
		},
	}
}

// acceptTLS is the TLS of connections that peers open.
func (m *Mux) acceptTLS() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		ClientAuth:             tls.RequireAnyClientCert, // VerifyConnection checks it
		SessionTicketsDisabled: true,
		NextProtos:             []string{"h2", heartbeatProtocol},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			own, _ := m.config.TLS()
			return &own, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			return m.verify(s.PeerCertificates, x509.ExtKeyUsageClientAuth, "")
		},
	}
}

// verify refuses a peer's chain, with the authorities of the moment.
func (m *Mux) verify(chain []*x509.Certificate, usage x509.ExtKeyUsage, want id.NodeID) error {
	err := errors.New("the peer sent no certificate: " + noTLS)
	if len(chain) > 0 {
		_, authorities := m.config.TLS()
		if err = certificate.Verify(chain, authorities, usage); err == nil {
			err = certificate.CheckName(chain[0], m.config.Cluster, want)
		}
	}
	if other := (certificate.OtherNodeError{}); err == nil || errors.As(err, &other) {
		return err
	}
	return refusal{codes.Unauthenticated, err.Error()}
}

// certified checks that a caller is the node that its certificate names.
func (m *Mux) certified(ctx context.Context, p Peer) error {
	if m.config.TLS == nil {
		return nil
	}
	from, _ := grpcpeer.FromContext(ctx)
	caller, _ := from.AuthInfo.(callerInfo)
	info, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return refusal{codes.Unauthenticated, fmt.Sprintf("node %q calls without a certificate: %s", p.Node, noTLS)}
	}
	if err := certificate.CheckName(info.State.PeerCertificates[0], m.config.Cluster, p.Node); err != nil {
		err = refusal{codes.Unauthenticated, fmt.Sprintf("a call in the name of node %q: %v", p.Node, err)}
		m.refusals.refused(m, err)
		return err
	}
	return nil
}

// dialCredentials secure one connection and end it with the precise
// reason if that fails.
type dialCredentials struct {
	credentials.TransportCredentials
	pc *peerConn
}

// credentials ends the connection with the precise reason where the handshake fails, which gRPC would hide.
func (pc *peerConn) credentials() credentials.TransportCredentials {
	if m := pc.p.m; m.config.TLS != nil {
		return dialCredentials{credentials.NewTLS(m.dialTLS(pc.p.node)), pc}
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

// first looks at what the peer sends first: in TLS 1.3 it is then that the peer refuses
// this node's certificate.
func (d dialCredentials) first(b []byte, err error) error {
	if d.pc.p.m.config.TLS != nil {
		return d.fault(err)
	}
	if len(b) > 1 && b[0] == recordAlert && b[1] == recordMajor {
		err = refusal{codes.Unauthenticated, fmt.Sprintf("node %q at %s speaks TLS, node %q does not: %s",
			d.pc.p.node, d.pc.address, d.pc.p.m.config.Node, noTLS)}
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
	node, address := d.pc.p.node, d.pc.address
	switch {
	case errors.As(err, &other):
		err = fmt.Errorf("transport: node %q at %s: %s; or, if that lasts, correct the address of %q", node, address, other.Text, node)
		d.pc.cancel(err)
		return err
	case errors.As(err, &known):
		known.text = fmt.Sprintf("node %q at %s: %s", node, address, known.text)
	case errors.As(err, &record):
		known = refusal{codes.Unauthenticated, fmt.Sprintf("node %q at %s does not speak TLS, node %q does: %s",
			node, address, d.pc.p.m.config.Node, noTLS)}
	case alerted:
		known = refusal{codes.Unauthenticated, fmt.Sprintf("node %q at %s does not take the certificate of node %q (%s): the log of node %q says why",
			node, address, d.pc.p.m.config.Node, alert, node)}
	default:
		return err
	}
	d.pc.cancel(known)
	return known
}

// alertOf returns the text of the alert by which the other end refused the handshake.
// crypto/tls has no exported type for it.
func alertOf(err error) (alert string, is bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return "", false
	}
	return op.Err.Error(), true
}

// acceptCredentials secure the connections that peers open. Who is refused is told and
// logged why.
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

// callerInfo is what the handshake has found out, with the connection that no node has shown to be its own.
type callerInfo struct {
	credentials.AuthInfo
	conn *gate.Conn // nil: it came through no gate
}

// Clone implements credentials.TransportCredentials.
func (a acceptCredentials) Clone() credentials.TransportCredentials { return a }

// ServerHandshake implements credentials.TransportCredentials. It keeps connections for
// heartbeats to itself.
func (a acceptCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if a.m.config.TLS == nil {
		head := make([]byte, len(heartbeatPreface))
		n, err := io.ReadFull(raw, head)
		switch {
		case err != nil && n == 0:
			return nil, nil, err
		case string(head) == heartbeatPreface:
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
		_, _ = raw.Write(plainRefused()) // whoever does not read it is refused all the same
		return refusal{codes.Unauthenticated, fmt.Sprintf("a caller speaks without TLS to node %q: %s", a.m.config.Node, noTLS)}
	}
	conn, info, err := a.TransportCredentials.ServerHandshake(looked)
	looked.keep = false
	if err == nil {
		if s, is := info.(credentials.TLSInfo); is && s.State.NegotiatedProtocol == heartbeatProtocol {
			return a.heartbeats(conn, callerInfo{info, gate.From(raw)})
		}
		return conn, callerInfo{info, gate.From(raw)}, nil
	}
	a.m.refusals.refused(a.m, err)
	linger(raw)
	return nil, nil, err
}

// heartbeats takes a connection for heartbeats away from gRPC.
func (a acceptCredentials) heartbeats(conn net.Conn, info callerInfo) (net.Conn, credentials.AuthInfo, error) {
	a.m.running.Go(func() { a.m.acceptHeartbeats(conn, info) })
	return nil, nil, credentials.ErrConnDispatched
}

// plain looks at what a caller sends first to a node without TLS.
func (a acceptCredentials) plain(b []byte, err error) error {
	if len(b) > 1 && b[0] == recordHandshake && b[1] == recordMajor {
		err = refusal{codes.Unauthenticated, fmt.Sprintf("a caller speaks TLS to node %q, which does not: %s", a.m.config.Node, noTLS)}
		a.m.refusals.refused(a.m, err)
	}
	return err
}

// linger reads on for a moment: closing with bytes unread would reset the connection,
// and the caller might never see the alert.
func linger(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, c, lingerBytes) // its end is what is waited for
	}
	_ = c.Close() // it is given up
}

// lookedAt shows the first read of a connection. Its Close does nothing while keep is
// set. One goroutine at a time reads, and closes while keep is set.
type lookedAt struct {
	net.Conn
	look func(b []byte, err error) error // returns the read's error, or another
	keep bool
}

// Read implements net.Conn.
func (l *lookedAt) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if l.look != nil {
		look := l.look
		l.look = nil
		if fault := look(b[:n], err); fault != nil {
			return 0, fault
		}
	}
	return n, err
}

// Close implements net.Conn.
func (l *lookedAt) Close() error {
	if l.keep {
		return nil
	}
	return l.Conn.Close()
}

// refusals counts refused callers and logs each reason once. mu guards told.
type refusals struct {
	mu     sync.Mutex
	count  uint64
	logged map[string]bool
}

// refused notes a caller that was turned away. Connections that just end are none: so do
// probes.
func (s *refusals) refused(m *Mux, err error) {
	var known refusal
	var network net.Error
	var reason string
	alert, alerted := alertOf(err)
	switch {
	case errors.As(err, &known):
		reason = known.text
	case alerted:
		reason = fmt.Sprintf("a caller does not take the certificate of node %q (%s): its log says why", m.config.Node, alert)
	case errors.Is(err, io.EOF) || errors.As(err, &network):
		return
	default:
		reason = fmt.Sprintf("the TLS handshake of a caller failed (%v): nodes need TLS 1.3 and a certificate of the cluster's authority", err)
	}
	s.mu.Lock()
	s.count++
	first := !s.logged[reason]
	last := first && len(s.logged) == maxToldRefusals
	if first && len(s.logged) <= maxToldRefusals {
		s.logged[reason] = true
	} else {
		first = false
	}
	s.mu.Unlock()
	switch {
	case last:
		m.log.Warn("callers are refused for ever new reasons, which are counted from now on and not logged", "reasons", maxToldRefusals)
	case first:
		m.log.Error("refused a caller at the nodes' port", "error", reason)
	}
}

// total counts those too whose reason was not logged.
func (s *refusals) total() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}
