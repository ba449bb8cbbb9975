package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Files with secrets that every user of the host may read or change are reported, each by its setting.
func TestOpenSecrets(t *testing.T) {
	dir := t.TempDir()
	file := func(mode os.FileMode) string {
		name := filepath.Join(dir, fmt.Sprintf("%o", mode))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	var c Config
	if open := c.OpenSecrets(); len(open) != 0 {
		t.Errorf("%v without files", open)
	}
	c.TLS.Peer.Key, c.TLS.Client.Key = file(0o644), file(0o600)
	c.Cluster.GossipKeyFile, c.Auth.DefaultPasswordFile = file(0o440), file(0o602)
	want := []OpenSecret{{"tls.peer.key", c.TLS.Peer.Key, 0o644}, {"auth.default_password_file", c.Auth.DefaultPasswordFile, 0o602}}
	if open := c.OpenSecrets(); fmt.Sprint(open) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", open, want)
	}
	c.TLS.Peer.Key, c.Auth.DefaultPasswordFile = filepath.Join(dir, "missing"), ""
	if open := c.OpenSecrets(); len(open) != 0 {
		t.Errorf("%v, want none", open)
	}
}

// A token is a line of some length; what is wrong with its file is reported, and not what is in it.
func TestMetricsToken(t *testing.T) {
	for text, want := range map[string]string{
		"0123456789abcdef\n": "", "  0123456789abcdef": "", "0123456789abcde\n": "holds no token", "": "holds no token",
		"0123456789abcdef 0123456789abcdef": "holds no token",
	} {
		var c Config
		c.HTTP.MetricsTokenFile = write(t, text)
		token, err := c.MetricsToken()
		switch {
		case want == "" && (err != nil || token != "0123456789abcdef"):
			t.Errorf("%q: %q, %v", text, token, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789")):
			t.Errorf("%q: %v", text, err)
		}
	}
	var c Config
	c.HTTP.MetricsTokenFile = filepath.Join(t.TempDir(), "missing")
	if err := c.CheckFiles(); err == nil || !strings.Contains(err.Error(), "http.metrics_token_file") {
		t.Errorf("a missing file: %v", err)
	}
}

// A secret on the command line is reported; one in the environment is not.
func TestSecretFlags(t *testing.T) {
	flags := pflag.NewFlagSet("node", pflag.ContinueOnError)
	AddFlags(flags)
	if given := SecretFlags(flags); given != nil {
		t.Errorf("%v, and none was given", given)
	}
	if err := flags.Parse([]string{"--auth.default_password=hush", "--auth.default_user=a"}); err != nil {
		t.Fatal(err)
	}
	want := SecretFlag{"auth.default_password", "auth.default_password_file, or the variable QUORATE_AUTH__DEFAULT_PASSWORD"}
	if given := SecretFlags(flags); len(given) != 1 || given[0] != want {
		t.Errorf("%v, want %v", given, want)
	}
}
