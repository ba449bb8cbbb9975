package main

import (
	"crypto/x509"
	"fmt"
	"os"
)

// readAuthorities reads the file that a flag names; nil without one: those of the system are trusted.
func readAuthorities(flag, name string) (*x509.CertPool, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // those of the system
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w: name a PEM file with the certificates of authorities", flag, err)}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, usageError{fmt.Errorf("%s is %s: it has no certificate in PEM", flag, name)}
	}
	return pool, nil
}
