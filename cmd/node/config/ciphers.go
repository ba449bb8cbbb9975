package config

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/nearest"
)

// MinTLS is tls.min_version; 0: not valid.
func (c *Config) MinTLS() uint16 {
	switch c.TLS.MinVersion {
	case "1.2":
		return tls.VersionTLS12
	case "1.3":
		return tls.VersionTLS13
	}
	return 0
}

// Ciphers are the suites of tls.cipher_suites; nil: Go's choice.
func (c *Config) Ciphers() (ids []uint16) {
	for _, s := range tls.CipherSuites() {
		if slices.Contains(c.TLS.CipherSuites, s.Name) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// validateCiphers returns the faults of tls.min_version and tls.cipher_suites.
func (c *Config) validateCiphers() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("config: "+format, args...)) }
	if c.MinTLS() == 0 {
		fault("tls.min_version is %q: use 1.2 or 1.3", c.TLS.MinVersion)
	}
	known := ciphersOf12(tls.CipherSuites())
	for _, name := range c.TLS.CipherSuites {
		switch {
		case slices.Contains(known, name):
		case slices.Contains(ciphersOf12(tls.InsecureCipherSuites()), name):
			fault("tls.cipher_suites has %s, which is not safe: use some of %s", name, strings.Join(known, ", "))
		case slices.ContainsFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.Name == name }):
			fault("tls.cipher_suites has %s, which belongs to TLS 1.3, whose suites cannot be chosen: leave it out", name)
		default:
			hint := "use some of " + strings.Join(known, ", ")
			if best := nearest.Name(name, known); best != "" {
				hint = fmt.Sprintf("did you mean %s?", best)
			}
			fault("tls.cipher_suites has %q, which is not a cipher suite: %s", name, hint)
		}
	}
	if c.MinTLS() == tls.VersionTLS13 && len(c.TLS.CipherSuites) > 0 {
		fault("tls.cipher_suites is set, and tls.min_version is 1.3, whose suites cannot be chosen: leave one of them out")
	}
	return errs
}

// ciphersOf12 returns the names of the suites of TLS 1.2.
func ciphersOf12(all []*tls.CipherSuite) (names []string) {
	for _, s := range all {
		if slices.Contains(s.SupportedVersions, tls.VersionTLS12) {
			names = append(names, s.Name)
		}
	}
	return names
}
