package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/authority"
)

// request is for a certificate that is right for the node n of the cluster "test".
func request(n id.NodeID) authority.Request {
	return authority.Request{
		CommonName: string(n), URIs: []*url.URL{Name("test", n)},
		Usages:    []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

// issuer returns what issues certificates, and the pool of its authority.
func issuer(t *testing.T) (issue func(authority.Request) tls.Certificate, pool *x509.CertPool) {
	t.Helper()
	a, err := authority.New("ca", time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.Pair().Cert) {
		t.Fatal("no certificate")
	}
	return func(r authority.Request) tls.Certificate {
		pair, err := a.Issue(r)
		if err != nil {
			t.Fatal(err)
		}
		c, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}, pool
}

// All reasons against a certificate are reported at once.
func TestCheck(t *testing.T) {
	issue, pool := issuer(t)
	r := request("n9")
	r.Usages = nil
	err := Check("te st", "n1", issue(r), pool)
	for _, want := range []string{
		`cluster name "te st" cannot stand in a certificate`, "is not for clientAuth", "is not for serverAuth", `is of cluster "test", this one is "te st"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
	if err := Check("test", "n1", tls.Certificate{}, nil); err == nil || !strings.Contains(err.Error(), "no authorities") {
		t.Error(err)
	}
	for _, n := range []id.NodeID{"n1", "a b%c?d#é", "quorate-0.example"} {
		if err := Check("test", n, issue(request(n)), pool); err != nil {
			t.Errorf("node %q: %v", n, err)
		}
	}
}
