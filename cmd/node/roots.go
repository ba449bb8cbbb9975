package main

import (
	"crypto/x509"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/cmd/node/serve"
)

// trustFor is trustPublic for a node that asks others than nodes and clients.
func trustFor(cfg *config.Config) error {
	if !serve.AsksOthers(cfg) {
		return nil
	}
	return trustPublic()
}

// trustPublic makes the program trust public authorities where the system has none: the image has no files of a
// system. Those of the system come first. It is called once, before the first certificate is verified, by commands
// that need it: parsed, the authorities of the system and these take some megabytes, and most nodes verify only
// certificates of nodes and clients, whose authorities are always named.
func trustPublic() error {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		c, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return fmt.Errorf("a public authority in this program: %w: import another version of golang.org/x/crypto/x509roots/fallback", err)
		}
		if root.Constraint == nil {
			pool.AddCert(c)
		} else {
			pool.AddCertWithConstraint(c, root.Constraint)
		}
	}
	x509.SetFallbackRoots(pool)
	return nil
}
