package serve

import (
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/quorate/quorate/cmd/node/config"
)

// certificateUser returns the function that finds the user of a client's certificate; nil:
// certificates do not log in.
func certificateUser(from string) func(*x509.Certificate) (string, error) {
	if from == "" {
		return nil
	}
	return func(c *x509.Certificate) (string, error) {
		names := namesIn(c, from)
		if len(names) == 0 || names[0] == "" {
			return "", fmt.Errorf("certificate %s has no name of kind %s (tls.client.login_from)", c.SerialNumber, from)
		}
		if len(names) > 1 {
			return "", errors.New("certificate " + c.SerialNumber.String() + " has several names of kind " + from + ": it must name one user")
		}
		return names[0], nil
	}
}

// namesIn returns all names of the kind in a certificate; more than one is ambiguous, and the
// caller refuses it.
func namesIn(c *x509.Certificate, from string) (names []string) {
	switch from {
	case config.LoginFromCommonName:
		return []string{c.Subject.CommonName}
	case config.LoginFromDNS:
		return c.DNSNames
	case config.LoginFromEmail:
		return c.EmailAddresses
	case config.LoginFromURI:
		for _, u := range c.URIs {
			names = append(names, u.String())
		}
	}
	return names
}
