// Package authority makes a small certificate authority and certificates from it, for
// trying TLS out and for tests: ECDSA P-256, PEM as every tool reads it. It does not
// revoke and keeps no list of what it issued.
//
// It reads no clock and no files. All functions may be called concurrently.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

const (
	// maxCommonNameBytes is X.509's limit for a common name.
	maxCommonNameBytes = 64
	serialBits         = 127

	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
)

// Pair is a certificate and its key, both PEM.
type Pair struct {
	Cert, Key []byte
}

// Authority signs certificates.
type Authority struct {
	pair Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Request describes a certificate.
type Request struct {
	CommonName          string   // for people; cut to 64 bytes
	Organizations       []string // of the subject, which Kubernetes takes for groups of users
	URIs                []*url.URL
	DNSNames            []string
	IPs                 []net.IP
	Usages              []x509.ExtKeyUsage
	NotBefore, NotAfter time.Time // the authority's own end applies if it is earlier
}

// New returns an authority with a new key.
func New(name string, notBefore, notAfter time.Time) (*Authority, error) {
	template, err := newTemplate(name, notBefore, notAfter)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	pair, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return Load(pair)
}

// Load returns an authority that New created earlier.
func Load(pair Pair) (*Authority, error) {
	both, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("authority: certificate and key: %w", err)
	}
	key, ok := both.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("authority: the key is a %T: use an ECDSA key", both.PrivateKey)
	}
	if !both.Leaf.IsCA {
		return nil, fmt.Errorf("authority: the certificate %q is not that of an authority", both.Leaf.Subject.CommonName)
	}
	return &Authority{pair: pair, cert: both.Leaf, key: key}, nil
}

// Pair returns the authority's own certificate and key.
func (a *Authority) Pair() Pair { return a.pair }

// NotAfter returns when the authority's certificate expires.
func (a *Authority) NotAfter() time.Time { return a.cert.NotAfter }

// Issue issues a certificate with a new key.
func (a *Authority) Issue(r Request) (Pair, error) {
	if !r.NotBefore.Before(a.cert.NotAfter) {
		return Pair{}, fmt.Errorf("authority: %q expired at %s: create a new one", a.cert.Subject.CommonName, a.cert.NotAfter.Format(time.RFC3339))
	}
	if r.NotAfter.After(a.cert.NotAfter) {
		r.NotAfter = a.cert.NotAfter
	}
	template, err := newTemplate(r.CommonName, r.NotBefore, r.NotAfter)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, r.Usages
	template.Subject.Organization = r.Organizations
	template.URIs, template.DNSNames, template.IPAddresses = r.URIs, r.DNSNames, r.IPs
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	return sign(template, a.cert, key, a.key)
}

// newTemplate returns the common parts of a certificate. It cuts names longer than X.520 allows:
// the common name is for people only.
func newTemplate(name string, notBefore, notAfter time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("authority: serial number: %w", err)
	}
	name = name[:min(len(name), maxCommonNameBytes)]
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: notBefore, NotAfter: notAfter,
	}, nil
}

// newKey makes a key on P-256, which every client understands.
func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("authority: new key: %w", err)
	}
	return key, nil
}

// sign issues the certificate for key and returns both as PEM, the key as PKCS #8.
func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (Pair, error) {
	cert, errCert := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	raw, errKey := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(errCert, errKey); err != nil {
		return Pair{}, fmt.Errorf("authority: certificate %q: %w", template.Subject.CommonName, err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: cert}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: raw}),
	}, nil
}
