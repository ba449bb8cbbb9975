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
