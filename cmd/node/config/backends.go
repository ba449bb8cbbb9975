package config

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/access/ldap"
	"github.com/quorate/quorate/access/oauth2"
	"github.com/quorate/quorate/broker/identity"
)

// OAuth2 has the settings of the token issuer.
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

// validateBackends demands settings for every backend in auth.backends, and an entry in
// auth.backends for all settings: half a configuration must neither let users in nor keep them out
// unnoticed.
func (c *Config) validateBackends() []error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("config: "+format, args...)) }
	seen := map[string]bool{}
	for _, b := range c.Auth.Backends {
		if b != identity.InternalUsers && b != oauth2.Name && b != ldap.Name || seen[b] {
			fault("auth.backends has %q: use %s, %s and %s, each at most once", b, identity.InternalUsers, oauth2.Name, ldap.Name)
		}
		seen[b] = true
	}
	if len(seen) == 0 {
		fault("auth.backends is empty: nobody could log in; use %s, or set auth.mode to none", identity.InternalUsers)
	}
	if o := &c.Auth.OAuth2; !seen[oauth2.Name] && (o.Issuer != "" || o.KeysURL != "") {
		fault("auth.oauth2.issuer or jwks_url is set, but auth.backends is %q: add %s to it", c.Auth.Backends, oauth2.Name)
	}
	if !seen[ldap.Name] && len(c.Auth.LDAP.Servers) > 0 {
		fault("auth.ldap.servers is set, but auth.backends is %q: add %s to it", c.Auth.Backends, ldap.Name)
	}
	for name, check := range map[string]func() error{oauth2.Name: c.Auth.OAuth2.validate, ldap.Name: c.Auth.LDAP.validate} {
		if err := check(); seen[name] && err != nil {
			fault("%w", err)
		}
	}
	return errs
}

// validate checks the settings by making the backend's configuration of them, which has the rules.
func (o *OAuth2) validate() error {
	c, err := o.config()
	if err != nil {
		return err
	}
	return c.Validate()
}

// config makes the backend's configuration. A leeway of 0 here means none, where the backend's 0
// would be its default.
func (o *OAuth2) config() (oauth2.Config, error) {
	c := oauth2.Config{
		Issuer: o.Issuer, KeysURL: o.KeysURL, ResourceServer: o.ResourceServer, Audience: o.Audience, ScopePrefix: o.ScopePrefix,
		AdditionalScopes: o.AdditionalScopes, UserClaims: o.UserClaims, Algorithms: o.Algorithms, Leeway: orNone(o.Leeway), Refresh: o.Refresh,
	}
	var err error
	c.ScopeAliases, err = pairs("auth.oauth2.scope_aliases", o.ScopeAliases)
	return c, err
}

// pairs reads entries NAME=SCOPE; a name may occur more than once.
func pairs(setting string, entries []string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, e := range entries {
		name, scope, ok := strings.Cut(e, "=")
		if !ok || name == "" || scope == "" || strings.ContainsAny(scope, " \t") {
			return nil, fmt.Errorf("%s has %q: use NAME=SCOPE, again for each further scope", setting, e)
		}
		out[name] = append(out[name], scope)
	}
	return out, nil
}

// orNone converts a setting where 0 means none for a field where 0 means its default.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// CacheFor is auth.cache as access.Guard takes it.
func (c *Config) CacheFor() time.Duration { return orNone(c.Auth.Cache) }

// Tokens returns the configuration of backend oauth2, with the authorities of auth.oauth2.ca; false
// if auth.backends does not have it.
func (c *Config) Tokens(log *slog.Logger) (own oauth2.Config, on bool, err error) {
	if !c.Authenticate() || !slices.Contains(c.Auth.Backends, oauth2.Name) {
		return own, false, nil
	}
	if own, err = c.Auth.OAuth2.config(); err != nil {
		return own, true, fmt.Errorf("config: %w", err)
	}
	own.Logger = log
	own.Authorities, err = authorities("auth.oauth2.ca", c.Auth.OAuth2.CA)
	return own, true, err
}

// authorities reads the authorities in a file; nil without a file.
func authorities(setting, name string) (*x509.CertPool, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // those of the operating system
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("config: %s: %w: name a PEM file that user %d may read", setting, err, os.Getuid())
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("config: %s %s holds no PEM certificate: put those of the authorities there", setting, name)
	}
	return pool, nil
}
