package serve

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/tlsfiles"
)

// watchTLS takes over new files while the node runs, and warns of secrets that every user can read.
func (n *node) watchTLS() {
	n.warnOfSecrets()
	if n.peerTLS != nil {
		n.watches.Go(func() { n.peerTLS.Watch(n.unwatch) })
		if n.cfg.Cluster.GossipKeyFile == "" {
			n.log.Warn("tls.peer is set and cluster.gossip_key_file is not: gossip is open to anyone who reaches its port")
		}
	}
	if n.clientTLS != nil {
		n.watches.Go(func() { n.clientTLS.Watch(n.unwatch) })
	}
}

// warnOfSecrets warns of secrets that every user of the host can read.
func (n *node) warnOfSecrets() {
	for _, s := range n.cfg.OpenSecrets() {
		n.log.Warn("every user of this host can read or change a secret: remove these rights, for example with chmod o=", "setting", s.Setting, "file", s.File, "mode", s.Mode.String())
	}
}

// reloadTLS takes over new files at once.
func (n *node) reloadTLS() {
	for _, f := range []*tlsfiles.Files{n.peerTLS, n.clientTLS} {
		if f == nil {
			continue
		}
		if err := f.Reload(); err != nil { // Load has just checked them
			n.log.Error("cannot use the changed TLS files; the old ones stay in force", "error", err)
		}
	}
}

// forAnybody is the TLS configuration of listeners that ask for no certificate. Each connection
// gets the node's present certificate.
func (n *node) forAnybody() *tls.Config {
	return &tls.Config{
		MinVersion:   max(n.cfg.MinTLS(), tls.VersionTLS12),
		CipherSuites: n.cfg.Ciphers(),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			own, _ := n.clientTLS.Current()
			return &own, nil
		},
	}
}

// forClients is the TLS configuration of the clients' listeners.
func (n *node) forClients() *tls.Config {
	c := n.forAnybody()
	switch n.cfg.ClientAuth() { // verifyClient checks certificates, with the present authorities
	case config.ClientAuthNone:
		return c
	case config.ClientAuthOptional:
		c.ClientAuth = tls.RequestClientCert
	default:
		c.ClientAuth = tls.RequireAnyClientCert
	}
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 && c.ClientAuth == tls.RequestClientCert {
			return nil
		}
		err := n.verifyClient(s.PeerCertificates)
		if err != nil {
			n.log.Warn("refused a client's certificate", "error", err)
		}
		return err
	}
	return c
}

// verifyClient accepts certificates of the authorities in tls.client.ca, and the node's own
// certificate: its key proves that the client is the node itself, which drains itself that way.
func (n *node) verifyClient(chain []*x509.Certificate) error {
	if len(chain) == 0 {
		return errors.New("the client sent no certificate: it needs one from an authority in tls.client.ca")
	}
	own, authorities := n.clientTLS.Current()
	if bytes.Equal(chain[0].Raw, own.Certificate[0]) {
		return nil
	}
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: authorities, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		name := chain[0].Subject.CommonName
		return fmt.Errorf("certificate %q: %w: it must be valid, for clientAuth, and from an authority in tls.client.ca",
			name[:min(len(name), maxShownBytes)], err)
	}
	return nil
}
