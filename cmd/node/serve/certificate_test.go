package serve

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"testing"
)

// A certificate names one user, or nobody.
func TestCertificateUser(t *testing.T) {
	full := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "common"}, DNSNames: []string{"host"},
		EmailAddresses: []string{"a@example.org", "b@example.org"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "d", Path: "/u"}},
	}
	empty := &x509.Certificate{SerialNumber: big.NewInt(8)}
	for _, x := range []struct {
		from string
		c    *x509.Certificate
		want string // "": refused
	}{
		{"common_name", full, "common"},
		{"common_name", empty, ""},
		{"san_dns", full, "host"},
		{"san_dns", empty, ""},
		{"san_email", full, ""},
		{"san_uri", full, "spiffe://d/u"},
		{"san_uri", empty, ""},
	} {
		user, err := certificateUser(x.from)(x.c)
		if user != x.want || (err == nil) != (x.want != "") {
			t.Errorf("%s of %s: %q, %v, want %q", x.from, x.c.SerialNumber, user, err, x.want)
		}
	}
	if certificateUser("") != nil {
		t.Error("certificates log in although nobody said how")
	}
}
