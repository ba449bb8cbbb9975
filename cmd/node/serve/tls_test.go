package serve

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/authority"
)

func newCA(t *testing.T) *authority.Authority {
	t.Helper()
	a, err := authority.New("ca", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issue makes a certificate for localhost.
func issue(t *testing.T, a *authority.Authority, usage x509.ExtKeyUsage, end time.Time) (authority.Pair, tls.Certificate) {
	t.Helper()
	pair, err := a.Issue(authority.Request{
		CommonName: "who", DNSNames: []string{"localhost"}, Usages: []x509.ExtKeyUsage{usage}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
	})
	if err != nil {
		t.Fatal(err)
	}
	both, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair, both
}

// nodeWith is a node whose clients' listener has a certificate, and an authority for those of clients.
func nodeWith(t *testing.T, own authority.Pair, ca *authority.Authority, auth string) *node {
	t.Helper()
	dir, cfg := t.TempDir(), &config.Config{}
	cfg.TLS.Client = config.TLSFiles{Cert: filepath.Join(dir, "c"), Key: filepath.Join(dir, "k"), CA: filepath.Join(dir, "a"), Auth: auth}
	for name, text := range map[string][]byte{"c": own.Cert, "k": own.Key, "a": ca.Pair().Cert} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := cfg.ClientTLS(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return &node{cfg: cfg, log: slog.New(slog.DiscardHandler), clientTLS: files}
}

// Whether clients need a certificate is a setting; one that is shown must be good.
func TestClientAuth(t *testing.T) {
	ca, other, later := newCA(t), newCA(t), time.Now().Add(time.Hour)
	server, _ := issue(t, other, x509.ExtKeyUsageServerAuth, later)
	_, good := issue(t, ca, x509.ExtKeyUsageClientAuth, later)
	_, outsider := issue(t, other, x509.ExtKeyUsageClientAuth, later)
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(other.Pair().Cert)
	const nobody, wrong, right = "without", "of another authority", "good"
	for auth, letIn := range map[string][]string{
		"":                        {right},
		config.ClientAuthRequired: {right},
		config.ClientAuthOptional: {nobody, right},
		config.ClientAuthNone:     {nobody, wrong, right}, // which are not asked for
	} {
		n := nodeWith(t, server, ca, auth)
		for name, own := range map[string]tls.Certificate{nobody: {}, wrong: outsider, right: good} {
			err := handshake(t, n.forClients(), &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: trust, ServerName: "localhost",
				// Also if the server names other authorities, as a client may do.
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
			})
			if want := slices.Contains(letIn, name); (err == nil) != want {
				t.Errorf("tls.client.auth %q, certificate %s: %v, let in %v", auth, name, err, want)
			}
		}
	}
}

// Clients speak the versions and suites of TLS that the settings name, over gRPC, AMQP and HTTP.
func TestVersionsAndSuites(t *testing.T) {
	ca, later := newCA(t), time.Now().Add(time.Hour)
	server, _ := issue(t, ca, x509.ExtKeyUsageServerAuth, later)
	const good, other = tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
	n := nodeWith(t, server, ca, config.ClientAuthNone)
	n.failed = make(chan error, 1)
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(ca.Pair().Cert)
	for _, x := range []struct {
		version string
		suites  []string
		most    uint16
		client  uint16 // its suite
		letIn   bool
	}{
		{"", nil, tls.VersionTLS11, 0, false},
		{"1.2", nil, tls.VersionTLS12, other, true},
		{"1.3", nil, tls.VersionTLS12, other, false},
		{"1.3", nil, tls.VersionTLS13, 0, true},
		{"1.2", []string{tls.CipherSuiteName(good)}, tls.VersionTLS12, good, true},
		{"1.2", []string{tls.CipherSuiteName(good)}, tls.VersionTLS12, other, false},
		{"1.2", []string{tls.CipherSuiteName(good)}, tls.VersionTLS13, 0, true},
	} {
		n.cfg.TLS.MinVersion, n.cfg.TLS.CipherSuites = x.version, x.suites
		client := &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: x.most, RootCAs: trust, ServerName: "localhost"}
		if x.client != 0 {
			client.CipherSuites = []uint16{x.client}
		}
		for name, secure := range map[string]*tls.Config{"clients": n.forClients(), "anybody": n.forAnybody()} {
			if err := handshake(t, secure, client.Clone()); (err == nil) != x.letIn {
				t.Errorf("%s, %+v: %v", name, x, err)
			}
			address := served(t, n, http.NotFoundHandler(), secure)
			if status, text := ask(t, client.Clone(), "https://"+address+"/", ""); (status == http.StatusNotFound) != x.letIn {
				t.Errorf("HTTP of %s, %+v: %d %s", name, x, status, text)
			}
		}
	}
}

// handshake returns the server's error.
func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	failed := make(chan error, 1)
	go func() { failed <- tls.Server(there, server).HandshakeContext(t.Context()) }()
	c := tls.Client(here, client)
	go func() {
		_ = c.HandshakeContext(t.Context())
		_, _ = c.Read(make([]byte, 1)) // takes what the server has to say
	}()
	return <-failed
}

// Clients need a certificate of tls.client.ca for their use; the node's own always does.
func TestVerifyClient(t *testing.T) {
	ca, other, later := newCA(t), newCA(t), time.Now().Add(time.Hour)
	pair, own := issue(t, other, x509.ExtKeyUsageServerAuth, later)
	n := nodeWith(t, pair, ca, "")
	_, good := issue(t, ca, x509.ExtKeyUsageClientAuth, later)
	_, server := issue(t, ca, x509.ExtKeyUsageServerAuth, later)
	_, outsider := issue(t, other, x509.ExtKeyUsageClientAuth, later)
	_, expired := issue(t, ca, x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Minute))
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		want  string // "": let in
	}{
		"a client's":        {[]*x509.Certificate{good.Leaf}, ""},
		"the node's own":    {[]*x509.Certificate{own.Leaf}, ""},
		"a server's":        {[]*x509.Certificate{server.Leaf}, "incompatible key usage"},
		"another authority": {[]*x509.Certificate{outsider.Leaf}, "unknown authority"},
		"expired":           {[]*x509.Certificate{expired.Leaf}, "expired"},
		"none":              {nil, "sent no certificate"},
	} {
		err := n.verifyClient(c.chain)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
