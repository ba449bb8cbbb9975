package config

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/access/oauth2"
	"github.com/quorate/quorate/broker"
)

// OAuth2 are the settings of the issuer of tokens.
type OAuth2 struct {
	Issuer           string        `koanf:"issuer"`
	KeysURL          string        `koanf:"jwks_url"`
	ResourceServer   string        `koanf:"resource_server_id"`
	Audience         string        `koanf:"audience"`
	ScopePrefix      string        `koanf:"scope_prefix"`
	AdditionalScopes []string      `koanf:"additional_scopes_key"`
	ScopeAliases     []string      `koanf:"scope_aliases"`
	UserClaims       []string      `koanf:"username_claims"`
	Algorithms       []string      `koanf:"algorithms"`
	Leeway           time.Duration `koanf:"leeway"`
	Refresh          time.Duration `koanf:"refresh"`
	CA               string        `koanf:"ca"`
}

// validateBackends asks for the settings of those that are named, and for the names of those that
// have settings: a half must not leave anybody in, or out, unnoticed.
func (c *Config) validateBackends() []error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("config: "+format, args...)) }
	seen := map[string]bool{}
	for _, b := range c.Auth.Backends {
		if b != broker.InternalUsers && b != oauth2.Name || seen[b] {
			fault("auth.backends has %q: use %s and %s, each once", b, broker.InternalUsers, oauth2.Name)
		}
		seen[b] = true
	}
	if len(seen) == 0 {
		fault("auth.backends is empty: nobody could log in; use %s, or set auth.mode to none", broker.InternalUsers)
	}
	o := &c.Auth.OAuth2
	if !seen[oauth2.Name] {
		if o.Issuer != "" || o.KeysURL != "" {
			fault("auth.oauth2.issuer or jwks_url is set, but auth.backends is %q: add %s to it", c.Auth.Backends, oauth2.Name)
		}
		return errs
	}
	own, err := o.config()
	if err == nil {
		err = own.Validate()
	}
	if err != nil {
		fault("%w", err)
	}
	return errs
}

func (o *OAuth2) config() (oauth2.Config, error) {
	c := oauth2.Config{
		Issuer: o.Issuer, KeysURL: o.KeysURL, ResourceServer: o.ResourceServer, Audience: o.Audience, ScopePrefix: o.ScopePrefix,
		AdditionalScopes: o.AdditionalScopes, UserClaims: o.UserClaims, Algorithms: o.Algorithms, Leeway: orNone(o.Leeway), Refresh: o.Refresh,
		ScopeAliases: map[string][]string{},
	}
	for _, a := range o.ScopeAliases {
		alias, scope, ok := strings.Cut(a, "=")
		if !ok || alias == "" || scope == "" || strings.ContainsAny(a, " \t") {
			return c, fmt.Errorf("auth.oauth2.scope_aliases has %q: use ALIAS=SCOPE without blanks, again for each further scope", a)
		}
		c.ScopeAliases[alias] = append(c.ScopeAliases[alias], scope)
	}
	return c, nil
}

// orNone is a setting whose 0 is none, for a field whose 0 is its default.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// CacheFor is auth.cache as access.Guard takes it.
func (c *Config) CacheFor() time.Duration { return orNone(c.Auth.Cache) }

// Tokens returns the settings of backend oauth2, with the authorities that auth.oauth2.ca names; false if it is
// not among auth.backends.
func (c *Config) Tokens(log *slog.Logger) (own oauth2.Config, on bool, err error) {
	if !c.Authenticate() || !slices.Contains(c.Auth.Backends, oauth2.Name) {
		return own, false, nil
	}
	if own, err = c.Auth.OAuth2.config(); err != nil {
		return own, true, fmt.Errorf("config: %w", err)
	}
	own.Logger = log
	name := c.Auth.OAuth2.CA
	if name == "" {
		return own, true, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return own, true, fmt.Errorf("config: auth.oauth2.ca: %w: name a PEM file that user %d may read", err, os.Getuid())
	}
	own.Authorities = x509.NewCertPool()
	if !own.Authorities.AppendCertsFromPEM(text) {
		return own, true, fmt.Errorf("config: auth.oauth2.ca %s holds no PEM certificate: put those of the issuer's authorities there", name)
	}
	return own, true, nil
}
