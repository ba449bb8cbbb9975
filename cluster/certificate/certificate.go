// Package certificate names nodes in X.509 certificates, and judges the certificates of nodes.
//
// A node's certificate names it by one URI among its subject alternative names; cluster/transport/DESIGN.md explains
// why. crypto/tls does not look for a URI, so both the name and the chain are checked here.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/id"
)

// nameScheme is that of the URI by which a certificate names its node.
const nameScheme = "quorate"

// maxShownBytes bounds what is shown of a name that an unauthenticated client chose.
const maxShownBytes = 128

// Name returns the URI that the certificate of a node must have among its
// subject alternative names: quorate://CLUSTER/node/ID.
func Name(cluster string, n id.NodeID) *url.URL {
	return &url.URL{Scheme: nameScheme, Host: cluster, Path: "/node/" + string(n)}
}

// Check returns all reasons why peers would not take the certificate, or its
// authorities, for those of this node.
func Check(cluster string, n id.NodeID, own tls.Certificate, authorities *x509.CertPool) error {
	var faults []error
	if err := CheckClusterName(cluster); err != nil {
		faults = append(faults, err)
	}
	if authorities == nil {
		faults = append(faults, errors.New("there are no authorities: name the file with those that issue the nodes' certificates"))
	}
	chain, err := parseChain(own)
	if err != nil {
		return errors.Join(append(faults, err)...)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if err := Verify(chain, authorities, usage); err != nil && authorities != nil {
			faults = append(faults, err)
		}
	}
	if err := CheckName(chain[0], cluster, n); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(distinct(faults)...)
}

// distinct drops errors whose text is that of one before.
func distinct(errs []error) []error {
	var out []error
	for _, e := range errs {
		if !slices.ContainsFunc(out, func(o error) bool { return o.Error() == e.Error() }) {
			out = append(out, e)
		}
	}
	return out
}

// parseChain returns the certificates, the node's own first.
func parseChain(c tls.Certificate) ([]*x509.Certificate, error) {
	if len(c.Certificate) == 0 {
		return nil, errors.New("there is no certificate")
	}
	chain := make([]*x509.Certificate, 0, len(c.Certificate))
	for _, raw := range c.Certificate {
		cert, err := x509.ParseCertificate(raw)
		if err != nil {
			return nil, fmt.Errorf("a certificate of the chain cannot be read: %w", err)
		}
		chain = append(chain, cert)
	}
	return chain, nil
}

// CheckClusterName refuses names of clusters that cannot be the host of a URI.
func CheckClusterName(cluster string) error {
	other := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	for label := range strings.SplitSeq(cluster, ".") {
		if label == "" || strings.ContainsFunc(label, other) {
			return fmt.Errorf("cluster name %q cannot stand in a certificate: with TLS use letters, digits, '-', '_' and single dots within the name", cluster)
		}
	}
	return nil
}

// Verify checks that an authority issued the chain's first certificate for this
// use, and that it is valid now.
func Verify(chain []*x509.Certificate, authorities *x509.CertPool, usage x509.ExtKeyUsage) error {
	leaf := chain[0]
	if authorities == nil {
		authorities = x509.NewCertPool() // nil would be the system's
	}
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	now := time.Now()
	// No usage at all counts as any for crypto/x509, but not here.
	missing := !slices.Contains(leaf.ExtKeyUsage, usage)
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: authorities, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch bad := errors.As(err, &invalid); {
	case bad && invalid.Reason == x509.Expired && now.Before(invalid.Cert.NotBefore):
		return fmt.Errorf("%s is not valid before %s: set the clock right, here or where it was issued", shown(invalid.Cert), stamp(invalid.Cert.NotBefore))
	case bad && invalid.Reason == x509.Expired:
		return fmt.Errorf("%s expired at %s: issue a new one, or set the clock right", shown(invalid.Cert), stamp(invalid.Cert.NotAfter))
	case errors.As(err, &unknown):
		return fmt.Errorf("%s was issued by %q, which is none of the authorities known here: "+
			"issue it from the cluster's authority, or add the other one to tls.peer.ca on every node", shown(leaf), cut(leaf.Issuer.CommonName))
	case missing || bad && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("%s is not for %s: issue it with the extended key usages clientAuth and serverAuth", shown(leaf), usageName(usage))
	case err != nil:
		return fmt.Errorf("%s cannot be trusted: %w", shown(leaf), err)
	}
	return nil
}

// OtherNodeError is about a certificate that is good, but another node's.
type OtherNodeError struct{ Text string }

// Error implements error.
func (e OtherNodeError) Error() string { return e.Text }

// CheckName refuses a certificate that does not name a node of the cluster, or names
// another one than want; an empty want is any.
func CheckName(c *x509.Certificate, cluster string, want id.NodeID) error {
	var names []*url.URL
	for _, u := range c.URIs {
		if u.Scheme == nameScheme {
			names = append(names, u)
		}
	}
	wanted := want
	if wanted == "" {
		wanted = "ID"
	}
	if len(names) != 1 {
		return fmt.Errorf("%s names %d nodes: issue it with exactly one URI %s as subject alternative name",
			shown(c), len(names), Name(cluster, wanted))
	}
	node, ok := strings.CutPrefix(names[0].Path, "/node/")
	switch {
	case !ok || node == "":
		return fmt.Errorf("%s names no node: issue it with the URI %s as subject alternative name", shown(c), Name(cluster, wanted))
	case names[0].Host != cluster:
		return fmt.Errorf("%s is of cluster %q, this one is %q: issue it with the URI %s, or correct the list of nodes to join",
			shown(c), cut(names[0].Host), cluster, Name(cluster, wanted))
	case want != "" && node != string(want):
		return OtherNodeError{fmt.Sprintf("%s names node %q where node %q was expected: give every node its own certificate, with the URI %s",
			shown(c), cut(node), want, Name(cluster, want))}
	}
	return nil
}

// shown names a certificate for people, by what unauthenticated clients cannot make long.
func shown(c *x509.Certificate) string {
	name := c.Subject.CommonName
	if len(c.URIs) > 0 {
		name = c.URIs[0].String()
	}
	return fmt.Sprintf("certificate %q", cut(name))
}

// cut may break a rune: what is shown is quoted.
func cut(s string) string {
	if len(s) > maxShownBytes {
		return s[:maxShownBytes] + "…"
	}
	return s
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// usageName is the name that tools for certificates give a usage.
func usageName(u x509.ExtKeyUsage) string {
	if u == x509.ExtKeyUsageClientAuth {
		return "clientAuth"
	}
	return "serverAuth"
}
