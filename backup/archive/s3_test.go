package archive

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/quorate/quorate/internal/authority"
)

// private starts an S3 service with a certificate of an authority of its own, which it returns too.
func private(t *testing.T) (Location, *x509.CertPool) {
	t.Helper()
	now := time.Now()
	a, err := authority.New("private", now.Add(-time.Hour), now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := a.Issue(authority.Request{
		CommonName: "s3", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	mem := s3mem.New()
	if err := mem.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(gofakes3.New(mem).Server())
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that clients refuse
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "user")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(a.Pair().Cert)
	return Location{Name: "s3://backups/of/today", S3: S3Config{Endpoint: server.URL, Region: "us-east-1"}}, trusted
}

// A service whose certificate is of a private authority is trusted by that authority, and by no other.
func TestPrivateAuthority(t *testing.T) {
	l, trusted := private(t)
	_, other := private(t)
	known := l
	known.S3.Authorities = trusted
	create(t, known, nil)
	if err := known.verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	parent := known
	parent.Name = "s3://backups/of"
	if all, err := parent.Backups(t.Context(), nil); err != nil || len(all) != 1 || all[0].Manifest == nil {
		t.Errorf("%+v, %v", all, err)
	}
	for what, l := range map[string]Location{
		"the system's": l,
		"another one":  {Name: l.Name, S3: S3Config{Endpoint: l.S3.Endpoint, Region: l.S3.Region, Authorities: other}},
	} {
		err := l.verify(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "give the authority of the service's certificate") {
			t.Errorf("with %s: %v", what, err)
		}
	}
	plain := known
	plain.S3.Endpoint = strings.Replace(l.S3.Endpoint, "https", "http", 1)
	if _, err := plain.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "want https") {
		t.Errorf("authorities of a service without TLS: %v", err)
	}
}
