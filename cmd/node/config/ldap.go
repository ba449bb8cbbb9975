package config

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/quorate/quorate/access/ldap"
)

// LDAP has the settings of the directory.
type LDAP struct {
	Servers            []string `koanf:"servers"`
	StartTLS           bool     `koanf:"start_tls"`
	CA                 string   `koanf:"ca"`
	UserDN             string   `koanf:"user_dn_pattern"`
	LookupBase         string   `koanf:"dn_lookup_base"`
	LookupAttribute    string   `koanf:"dn_lookup_attribute"`
	LookupDN           string   `koanf:"dn_lookup_bind_dn"`
	LookupPasswordFile string   `koanf:"dn_lookup_bind_password_file"`
	GroupBase          string   `koanf:"group_base"`
	GroupMember        string   `koanf:"group_member_attribute"`
	GroupName          string   `koanf:"group_name_attribute"`
	Groups             []string `koanf:"groups"`
}

// config makes the backend's configuration without the content of files; the name of the password
// file stands in for the password.
func (l *LDAP) config() (ldap.Config, error) {
	groups, err := pairs("auth.ldap.groups", l.Groups)
	return ldap.Config{
		Servers: l.Servers, StartTLS: l.StartTLS, UserDN: l.UserDN, LookupBase: l.LookupBase, LookupAttribute: l.LookupAttribute,
		LookupDN: l.LookupDN, LookupPassword: l.LookupPasswordFile, GroupBase: l.GroupBase, GroupMember: l.GroupMember, GroupName: l.GroupName,
		Groups: groups,
	}, err
}

// validate checks the settings by making the backend's configuration of them, which has the rules.
func (l *LDAP) validate() error {
	c, err := l.config()
	if err != nil {
		return err
	}
	return c.Validate()
}

// Directory returns the configuration of backend ldap, with the content of its files; false if
// auth.backends does not have it.
func (c *Config) Directory(log *slog.Logger) (own ldap.Config, on bool, err error) {
	if !c.Authenticate() || !slices.Contains(c.Auth.Backends, ldap.Name) {
		return own, false, nil
	}
	l := &c.Auth.LDAP
	if own, err = l.config(); err != nil {
		return own, true, fmt.Errorf("config: %w", err)
	}
	own.Logger = log
	if own.Authorities, err = authorities("auth.ldap.ca", l.CA); err != nil || l.LookupPasswordFile == "" {
		return own, true, err
	}
	text, err := os.ReadFile(l.LookupPasswordFile)
	if err != nil {
		return own, true, fmt.Errorf("config: auth.ldap.dn_lookup_bind_password_file: %w: name a file that user %d may read", err, os.Getuid())
	}
	if own.LookupPassword = strings.TrimRight(string(text), "\r\n"); own.LookupPassword == "" {
		return own, true, fmt.Errorf("config: auth.ldap.dn_lookup_bind_password_file %s is empty: write the password into it", l.LookupPasswordFile)
	}
	return own, true, nil
}
