package serve

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/authority"
)

// Clients need a certificate of tls.client.ca for their use; the node's own always does.
func TestVerifyClient(t *testing.T) {
	now := time.Now()
	newCA := func() *authority.Authority {
		a, err := authority.New("ca", now.Add(-time.Hour), now.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	issue := func(a *authority.Authority, usage x509.ExtKeyUsage, end time.Time) (authority.Pair, []*x509.Certificate) {
		pair, err := a.Issue(authority.Request{CommonName: "who", Usages: []x509.ExtKeyUsage{usage}, NotBefore: now.Add(-time.Hour), NotAfter: end})
		if err != nil {
			t.Fatal(err)
		}
		both, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		return pair, []*x509.Certificate{both.Leaf}
	}
	ca, other, later := newCA(), newCA(), now.Add(time.Hour)
	pair, own := issue(other, x509.ExtKeyUsageServerAuth, later)
	dir, cfg := t.TempDir(), &config.Config{}
	cfg.TLS.Client = config.TLSFiles{Cert: filepath.Join(dir, "c"), Key: filepath.Join(dir, "k"), CA: filepath.Join(dir, "a")}
	for name, text := range map[string][]byte{"c": pair.Cert, "k": pair.Key, "a": ca.Pair().Cert} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := cfg.ClientTLS(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: cfg, log: slog.New(slog.DiscardHandler), clientTLS: files}
	_, good := issue(ca, x509.ExtKeyUsageClientAuth, later)
	_, server := issue(ca, x509.ExtKeyUsageServerAuth, later)
	_, stranger := issue(other, x509.ExtKeyUsageClientAuth, later)
	_, expired := issue(ca, x509.ExtKeyUsageClientAuth, now.Add(-time.Minute))
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		want  string // "": let in
	}{
		"a client's":        {good, ""},
		"the node's own":    {own, ""},
		"a server's":        {server, "incompatible key usage"},
		"another authority": {stranger, "unknown authority"},
		"expired":           {expired, "expired"},
		"none":              {nil, "sent none"},
	} {
		err := n.verifyClient(c.chain)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
