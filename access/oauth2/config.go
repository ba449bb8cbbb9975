// Package oauth2 is the backend of access for JSON Web Tokens of an issuer of OAuth 2 or OpenID
// Connect: it verifies their signatures with the issuer's published keys and derives rights from
// their scopes, in RabbitMQ's syntax (ID-4).
//
// Run owns the keys and alone fetches them. While the issuer is out of reach, the known keys stay
// in force.
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

// Algorithms returns the signature algorithms that may be allowed. All use key pairs, so that a
// published key can verify but not sign.
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// Config describes a Backend. Zero values are the defaults.
type Config struct {
	// Issuer is the URL of the issuer that must have signed a token. Its keys are found by discovery
	// unless KeysURL is set. "": any issuer whose keys are at KeysURL.
	Issuer  string
	KeysURL string
	// ResourceServer is this cluster's name among the issuer's services.
	ResourceServer string
	// Audience must be among the audiences of a token; "": ResourceServer.
	Audience string
	// ScopePrefix is the prefix of scopes that are meant for this cluster; "": ResourceServer and a
	// dot.
	ScopePrefix string
	// AdditionalScopes are further claims that hold scopes, as paths with dots.
	AdditionalScopes []string
	// ScopeAliases maps a scope to the scopes that it stands for.
	ScopeAliases map[string][]string
	// UserClaims are the claims that may name the user; the first one present counts. Empty: sub,
	// client_id.
	UserClaims []string
	// Algorithms are the signature algorithms that are accepted; empty: all of Algorithms().
	Algorithms []string
	// Leeway is how far the issuer's clock may differ; 0: 10 s, negative: no leeway.
	Leeway time.Duration
	// Refresh is how often keys are fetched; 0: 10 min.
	Refresh time.Duration
	// RefetchEvery is the minimum time between two fetches that unknown keys cause; 0: 10 s.
	RefetchEvery time.Duration
	// Authorities are the issuers of the certificate of the token issuer's server; nil: those of the
	// operating system.
	Authorities *x509.CertPool
	Logger      *slog.Logger // nil: nothing is logged
}

// Validate returns all faults at once, by the names of the node's settings.
func (c *Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("auth.oauth2."+format, args...)) }
	if c.Issuer == "" && c.KeysURL == "" {
		fault("issuer and jwks_url are both empty: set the issuer, or the URL of its keys")
	}
	for _, u := range []struct{ key, value string }{{"issuer", c.Issuer}, {"jwks_url", c.KeysURL}} {
		if err := checkURL(u.value); u.value != "" && err != nil {
			fault("%s is %q: %w", u.key, u.value, err)
		}
	}
	if c.ResourceServer == "" {
		fault("resource_server_id is empty: set the name by which tokens refer to this cluster, for example quorate")
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

// checkURL refuses plain text except on this host: whoever can change the keys in transit can forge
// any token.
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
	return errors.New("use https; http is allowed only on addresses of this host")
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
