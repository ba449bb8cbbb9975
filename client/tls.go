package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/credentials"
)

// TLS names what protects the connections to the nodes. All files are PEM. New reads them. The files of the client's
// own certificate are read again for every connection, so that a renewed certificate is used without a new client.
type TLS struct {
	// CA holds the authorities that issue the nodes' certificates; "": those that the
	// system trusts.
	CA string
	// Cert and Key are the client's certificate, for nodes that ask for one; "": none.
	Cert, Key string
	// ServerName is the name that the nodes' certificates must have; "": the host of
	// each node's address.
	ServerName string
}

// validate refuses a certificate without its key. The files are read later, when a connection is
// made.
func (t *TLS) validate() error {
	if (t.Cert == "") != (t.Key == "") {
		return fmt.Errorf("client: TLS has Cert %q and Key %q: set both, or none", t.Cert, t.Key)
	}
	return nil
}

// credentials reads the files; all faults come back at once.
func (t *TLS) credentials() (credentials.TransportCredentials, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	var errs []error
	if t.CA != "" {
		pool, err := readAuthorities(t.CA)
		c.RootCAs = pool
		errs = append(errs, err)
	}
	if t.Cert != "" {
		_, err := t.own()
		errs = append(errs, err)
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.own() }
	}
	return credentials.NewTLS(c), errors.Join(errs...)
}

// own reads the client's certificate for each handshake, so that a renewed one needs no restart.
func (t *TLS) own() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("client: TLS certificate %s with key %s: %w", t.Cert, t.Key, err)
	}
	return &pair, nil
}

// readAuthorities reads the file whose certificates the nodes' must go back to.
func readAuthorities(name string) (*x509.CertPool, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("client: TLS authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("client: TLS authorities: %s holds no PEM certificate", name)
	}
	return pool, nil
}
