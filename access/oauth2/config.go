// Package oauth2 is the backend of access for JSON Web Tokens of an issuer of OAuth 2 or OpenID
// Connect: it verifies their signatures by the issuer's published keys, and makes rights of their
// scopes, in the form that RabbitMQ has for them (ID-4).
//
// The keys belong to Run, which alone fetches them. An issuer that is out of reach keeps the keys
// that are known in force.
package oauth2

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Defaults of Config.
const (
	DefaultLeeway       = 10 * time.Second
	DefaultRefresh      = 10 * time.Minute
	DefaultRefetchEvery = 10 * time.Second
)

// maxLeeway bounds Config.Leeway.
const maxLeeway = 5 * time.Minute

// Algorithms returns those of signatures that can be allowed: of pairs of keys alone, so that what
// is published verifies and cannot sign.
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// Config describes a Backend. Zero values are the defaults.
type Config struct {
	// Issuer is who must have signed tokens, by its URL; its keys are found by discovery, unless
	// KeysURL names them. "": any whose key is at KeysURL.
	Issuer  string
	KeysURL string
	// ResourceServer is the name of this cluster among the services of the issuer.
	ResourceServer string
	// Audience must be one of a token's; "": ResourceServer.
	Audience string
	// ScopePrefix begins the scopes that are meant for this cluster; "": ResourceServer and a dot.
	ScopePrefix string
	// AdditionalScopes are claims that hold scopes too, as paths with dots.
	AdditionalScopes []string
	// ScopeAliases are scopes that stand for others.
	ScopeAliases map[string][]string
	// UserClaims are the claims that may name the user; the first that does counts. Empty: sub,
	// client_id.
	UserClaims []string
	// Algorithms are those that a signature may have; empty: all of Algorithms().
	Algorithms []string
	// Leeway is how far the issuer's clock may be off; 0: 10 s, below 0: not at all.
	Leeway time.Duration
	// Refresh is how often keys are fetched; 0: 10 min.
	Refresh time.Duration
	// RefetchEvery is the least time between two fetches that unknown keys cause; 0: 10 s.
	RefetchEvery time.Duration
	// Authorities have issued the certificate of the issuer; nil: those of the operating system.
	Authorities *x509.CertPool
	Logger      *slog.Logger // nil: nothing is logged
}

// Validate returns all faults at once, with the names of the settings of a node.
func (c *Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("auth.oauth2."+format, args...)) }
	if c.Issuer == "" && c.KeysURL == "" {
		fault("issuer is empty, and jwks_url too: name the issuer, or the URL of its keys")
	}
	for _, u := range []struct{ key, value string }{{"issuer", c.Issuer}, {"jwks_url", c.KeysURL}} {
		if err := checkURL(u.value); u.value != "" && err != nil {
			fault("%s is %q: %w", u.key, u.value, err)
		}
	}
	if c.ResourceServer == "" {
		fault("resource_server_id is empty: give the name that tokens have this cluster under, for example quorate")
	}
	for _, a := range c.Algorithms {
		if !slices.Contains(Algorithms(), a) {
			fault("algorithms has %q: use some of %s", a, strings.Join(Algorithms(), ", "))
		}
	}
	for _, d := range []struct {
		key         string
		value, most time.Duration
	}{
		{"leeway", max(c.Leeway, 0), maxLeeway},
		{"refresh", c.Refresh, 24 * time.Hour},
		{"refetch", c.RefetchEvery, time.Hour},
	} {
		if d.value < 0 || d.value > d.most {
			fault("%s is %v: use 0 (default) to %v", d.key, d.value, d.most)
		}
	}
	return errors.Join(errs...)
}

// checkURL takes no plain text but on this host: who can change the keys on their way can make any token.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("use a URL such as https://login.example/realms/main")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()):
		return nil
	}
	return errors.New("use https; http is for addresses of this host alone")
}

// setDefaults fills in what is zero. A negative leeway means none.
func (c *Config) setDefaults() {
	if c.Audience == "" {
		c.Audience = c.ResourceServer
	}
	if c.ScopePrefix == "" {
		c.ScopePrefix = c.ResourceServer + "."
	}
	if len(c.UserClaims) == 0 {
		c.UserClaims = []string{"sub", "client_id"}
	}
	if len(c.Algorithms) == 0 {
		c.Algorithms = Algorithms()
	}
	for d, value := range map[*time.Duration]time.Duration{
		&c.Leeway: DefaultLeeway, &c.Refresh: DefaultRefresh, &c.RefetchEvery: DefaultRefetchEvery,
	} {
		if *d == 0 {
			*d = value
		}
	}
	c.Leeway = max(c.Leeway, 0)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) tls() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Authorities}
}
