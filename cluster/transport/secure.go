package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/quorate/quorate/cluster/certificate"
	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/gate"
)

const (

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
func (l *local) dialTLS(to id.NodeID) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		InsecureSkipVerify:     true, //nolint:gosec // VerifyConnection does it, see above
		SessionTicketsDisabled: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, _ := l.config.TLS()
			return &own, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			return l.verify(s.PeerCertificates, x509.ExtKeyUsageServerAuth, to)
		},
	}
}

// acceptTLS is the TLS of connections that peers open.
func (l *local) acceptTLS() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		ClientAuth:             tls.RequireAnyClientCert, // VerifyConnection checks it
		SessionTicketsDisabled: true,
		NextProtos:             []string{"h2", pulse.Protocol},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			own, _ := l.config.TLS()
			return &own, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			return l.verify(s.PeerCertificates, x509.ExtKeyUsageClientAuth, "")
		},
	}
}

// verify refuses a peer's chain, with the authorities of the moment.
func (l *local) verify(chain []*x509.Certificate, usage x509.ExtKeyUsage, want id.NodeID) error {
	err := errors.New("the peer sent no certificate: " + noTLS)
	if len(chain) > 0 {
		_, authorities := l.config.TLS()
		if err = certificate.Verify(chain, authorities, usage); err == nil {
			err = certificate.CheckName(chain[0], l.config.Cluster, want)
		}
	}
	if other := (certificate.OtherNodeError{}); err == nil || errors.As(err, &other) {
		return err
	}
	return refusal{codes.Unauthenticated, err.Error()}
}

// certified checks that a caller is the node that its certificate names.
func (l *local) certified(ctx context.Context, p Peer) error {
	if l.config.TLS == nil {
		return nil
	}
	from, _ := grpcpeer.FromContext(ctx)
	caller, _ := from.AuthInfo.(callerInfo)
	info, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return refusal{codes.Unauthenticated, fmt.Sprintf("node %q calls without a certificate: %s", p.Node, noTLS)}
	}
	if err := certificate.CheckName(info.State.PeerCertificates[0], l.config.Cluster, p.Node); err != nil {
		err = refusal{codes.Unauthenticated, fmt.Sprintf("a call in the name of node %q: %v", p.Node, err)}
		l.refusals.refused(err)
		return err
	}
	return nil
}

// callerInfo is what the handshake has found out, with the connection that no node has shown to be its own.
type callerInfo struct {
	credentials.AuthInfo
	conn *gate.Conn // nil: it came through no gate
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
