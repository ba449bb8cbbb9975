package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAuth(t *testing.T) {
	load := func(environ ...string) (*Config, error) {
		return Load("", append(environ, "QUORATE_CLUSTER__ADMISSION=open", "QUORATE_NODE_ID=n"), nil)
	}
	for setting, want := range map[string]string{
		"QUORATE_AUTH__MODE=none":           "auth.mode is none and listen.client is 0.0.0.0:7070",
		"QUORATE_AUTH__MODE=off":            `auth.mode is "off"`,
		"QUORATE_AUTH__DEFAULT_USER=a:b":    "auth.default_user",
		"QUORATE_AUTH__DEFAULT_PASSWORD=":   "auth.default_password is empty",
		"QUORATE_AUTH__DEFAULT_PASSWORDS=x": "auth.default_password",
	} {
		if _, err := load(setting); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", setting, err, want)
		}
	}
	for _, address := range []string{"127.0.0.1:7070", "localhost:7070", "[::1]:7070"} {
		if c, err := load("QUORATE_AUTH__MODE=none", "QUORATE_LISTEN__CLIENT="+address); err != nil || c.Authenticate() {
			t.Errorf("none on %s: %v", address, err)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load("QUORATE_AUTH__DEFAULT_PASSWORD_FILE=" + file)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := c.DefaultPassword(); err != nil || p != "secret" || !c.Authenticate() {
		t.Errorf("password %q, %v", p, err)
	}
	c.Auth.DefaultPasswordFile += "x"
	if _, err := c.DefaultPassword(); err == nil {
		t.Error("a missing file is no error")
	}
}

// Backends need their settings, and settings their backend.
func TestBackends(t *testing.T) {
	const issuer, id = "QUORATE_AUTH__OAUTH2__ISSUER=https://login.example/realms/x", "QUORATE_AUTH__OAUTH2__RESOURCE_SERVER_ID=quorate"
	const both = "QUORATE_AUTH__BACKENDS=internal,oauth2"
	load := func(environ ...string) (*Config, error) {
		return Load("", append(environ, "QUORATE_CLUSTER__ADMISSION=open", "QUORATE_NODE_ID=n"), nil)
	}
	for _, row := range []struct {
		want    string
		environ []string
	}{
		{`auth.backends has "ldapp"`, []string{"QUORATE_AUTH__BACKENDS=internal,ldapp"}},
		{`auth.backends has "internal"`, []string{"QUORATE_AUTH__BACKENDS=internal,internal"}},
		{"auth.backends is empty", []string{"QUORATE_AUTH__BACKENDS="}},
		{"add oauth2 to it", []string{issuer}},
		{"auth.oauth2.issuer and jwks_url are both empty", []string{both, id}},
		{"auth.oauth2.resource_server_id is empty", []string{both, issuer}},
		{"use https", []string{both, id, "QUORATE_AUTH__OAUTH2__ISSUER=http://login.example"}},
		{`auth.oauth2.algorithms has "HS256"`, []string{both, id, issuer, "QUORATE_AUTH__OAUTH2__ALGORITHMS=HS256"}},
		{"use NAME=SCOPE", []string{both, id, issuer, "QUORATE_AUTH__OAUTH2__SCOPE_ALIASES=reader"}},
		{"auth.ldap.servers is set", []string{"QUORATE_AUTH__LDAP__SERVERS=ldaps://x"}},
		{"auth.ldap.servers is empty", []string{"QUORATE_AUTH__BACKENDS=ldap"}},
		{"go together", []string{"QUORATE_AUTH__BACKENDS=ldap", "QUORATE_AUTH__LDAP__SERVERS=ldaps://x", "QUORATE_AUTH__LDAP__DN_LOOKUP_BIND_DN=cn=x"}},
		{"auth.ldap.groups has", []string{"QUORATE_AUTH__BACKENDS=ldap", "QUORATE_AUTH__LDAP__GROUPS=readers"}},
		{"auth.cache is 2h0m0s", []string{"QUORATE_AUTH__CACHE=2h"}},
	} {
		if _, err := load(row.environ...); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want %q", row.environ, err, row.want)
		}
	}
	c, err := load(both, id, issuer, "QUORATE_AUTH__OAUTH2__LEEWAY=0s", "QUORATE_AUTH__CACHE=0s", "QUORATE_AUTH__OAUTH2__SCOPE_ALIASES=a=quorate.read:*/*,a=quorate.tag:management")
	if err != nil {
		t.Fatal(err)
	}
	own, on, err := c.Tokens(nil)
	if err != nil || !on || len(own.ScopeAliases["a"]) != 2 || own.Leeway >= 0 || c.CacheFor() >= 0 {
		t.Errorf("%+v, %v, %v", own, on, err)
	}
	c.Auth.OAuth2.CA = filepath.Join(t.TempDir(), "missing.pem")
	if _, _, err := c.Tokens(nil); err == nil || !strings.Contains(err.Error(), "auth.oauth2.ca") || c.CheckFiles() == nil {
		t.Errorf("a missing file: %v", err)
	}
	for _, environ := range [][]string{nil, {"QUORATE_AUTH__MODE=none", "QUORATE_LISTEN__CLIENT=127.0.0.1:7070", "QUORATE_LISTEN__AMQP=off", both, id, issuer}} {
		if c, err := load(environ...); err != nil {
			t.Error(err)
		} else if _, on, err := c.Tokens(nil); on || err != nil {
			t.Errorf("%q: %v, %v", environ, on, err)
		}
	}
}

// The password by which a directory is searched is in a file.
func TestDirectory(t *testing.T) {
	file := write(t, "secret\n")
	c, err := Load("", []string{
		"QUORATE_CLUSTER__ADMISSION=open", "QUORATE_NODE_ID=n", "QUORATE_AUTH__BACKENDS=ldap,internal", "QUORATE_AUTH__LDAP__SERVERS=ldaps://a,ldaps://b",
		"QUORATE_AUTH__LDAP__DN_LOOKUP_BASE=dc=x,dc=y", "QUORATE_AUTH__LDAP__DN_LOOKUP_ATTRIBUTE=uid", "QUORATE_AUTH__LDAP__DN_LOOKUP_BIND_DN=cn=s,dc=y",
		"QUORATE_AUTH__LDAP__DN_LOOKUP_BIND_PASSWORD_FILE=" + file, "QUORATE_AUTH__LDAP__GROUP_BASE=ou=g", "QUORATE_AUTH__LDAP__GROUPS=ops=tag:administrator",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own, on, err := c.Directory(nil)
	if err != nil || !on || own.LookupPassword != "secret" || len(own.Servers) != 2 || own.GroupMember != "member" || len(own.Groups["ops"]) != 1 {
		t.Errorf("%+v, %v, %v", own, on, err)
	}
	for _, file := range []string{filepath.Join(t.TempDir(), "missing"), write(t, "\n")} {
		c.Auth.LDAP.LookupPasswordFile = file
		if _, _, err := c.Directory(nil); err == nil || !strings.Contains(err.Error(), "dn_lookup_bind_password_file") || c.CheckFiles() == nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
