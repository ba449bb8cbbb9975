// Package ldap is the backend of access for users of a directory: it binds as the user with the
// given password and derives rights from the user's groups (ID-6).
//
// It never binds with an empty password: a directory treats that as an anonymous bind, which proves
// nothing.
package ldap

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"github.com/quorate/quorate/access"
)

// userName is the placeholder of the user's name in Config.UserDN.
const userName = "${username}"

// Config describes a Backend. Zero values are the defaults.
type Config struct {
	// Servers are tried in turn until one answers: ldap://HOST[:PORT] or ldaps://HOST[:PORT].
	Servers []string
	// StartTLS starts TLS on ldap:// before anything else is sent.
	StartTLS bool
	// Authorities are the issuers of the servers' certificates; nil: those of the operating system.
	Authorities *x509.CertPool
	// UserDN is the name of a user's entry, with ${username} in it; "": the entry is looked up.
	UserDN string
	// LookupBase and LookupAttribute find a user's entry: the only entry below the base whose
	// attribute is the user's name.
	LookupBase, LookupAttribute string
	// LookupDN and LookupPassword are used to bind for the search; "": the search is anonymous.
	LookupDN, LookupPassword string
	// GroupBase is the entry below which groups are searched. GroupMember is the attribute of a group
	// that holds the user's entry, GroupName the one that names the group; "" is member and cn. The
	// search binds as LookupDN, or else as the user.
	GroupBase, GroupMember, GroupName string
	// Groups maps names of groups to scopes without a prefix.
	Groups map[string][]string
	Logger *slog.Logger // nil: nothing is logged
}

// Validate returns all faults at once, by the names of the node's settings.
func (c *Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("auth.ldap."+format, args...)) }
	if len(c.Servers) == 0 {
		fault("servers is empty: name some, for example ldaps://ldap.example")
	}
	for _, s := range c.Servers {
		if err := c.checkServer(s); err != nil {
			fault("servers has %q: %w", s, err)
		}
	}
	lookup := c.LookupBase != "" && c.LookupAttribute != ""
	switch {
	case c.UserDN != "" && (c.LookupBase != "" || c.LookupAttribute != ""):
		fault("user_dn_pattern and dn_lookup_base are set: use one of them")
	case c.UserDN != "" && !strings.Contains(c.UserDN, userName):
		fault("user_dn_pattern is %q: put %s where the user's name belongs", c.UserDN, userName)
	case c.UserDN == "" && !lookup:
		fault("user_dn_pattern is empty: set it, or dn_lookup_base and dn_lookup_attribute")
	}
	if (c.LookupDN == "") != (c.LookupPassword == "") {
		fault("dn_lookup_bind_dn and dn_lookup_bind_password_file go together: set both, or none")
	}
	if len(c.Groups) > 0 && c.GroupBase == "" {
		fault("groups is set without group_base: set the entry below which groups are")
	}
	for group, scopes := range c.Groups {
		for _, s := range scopes {
			if !access.IsScope(s) {
				fault("groups gives %q to %q: use read:VHOST/NAME, write:, configure: or tag:TAG", s, group)
			}
		}
	}
	return errors.Join(errs...)
}

// checkServer refuses plain text except on this host, because passwords cross the wire.
func (c *Config) checkServer(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return errors.New("use ldaps://HOST or ldap://HOST, with a port if need be")
	case u.Scheme == "ldaps":
		if c.StartTLS {
			return errors.New("uses TLS from the start: use ldap:// with auth.ldap.start_tls")
		}
		return nil
	case u.Scheme != "ldap":
		return errors.New("use ldaps:// or ldap://")
	case c.StartTLS || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback():
		return nil
	}
	return errors.New("use ldaps://, or set auth.ldap.start_tls; passwords in plain text are allowed only on addresses of this host")
}

func (c *Config) tls(host string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Authorities, ServerName: host}
}
