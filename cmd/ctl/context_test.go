package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A context stands in for flags, and flags go before it.
func TestContexts(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(contextsEnv, filepath.Join(dir, "contexts.yaml"))
	for _, name := range []string{addressesEnv, userEnv, passwordEnv, tokenEnv, contextEnv} {
		t.Setenv(name, "")
	}
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte("hidden\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctl := func(want int, line string) string {
		t.Helper()
		var out bytes.Buffer
		if got := run(t.Context(), strings.Fields(line), &out, &out); got != want {
			t.Errorf("quoratectl %s: %d, want %d\n%s", line, got, want, &out)
		}
		return out.String()
	}
	ctl(0, "context put prod -a a:1,b:2 --vhost shop --user ops --password-file "+secret+" --tls-ca ca.pem")
	ctl(0, "context put test -a c:3")
	ctl(2, "context put bad --password x")
	ctl(2, "context use none")
	ctl(2, "context put none")
	if out := ctl(0, "contexts list"); !strings.Contains(out, "*  prod  a:1,b:2    shop   ops") {
		t.Errorf("the list is\n%s", out)
	}
	session := func(args ...string) *session {
		t.Helper()
		s, root := newSession()
		if err := errors.Join(root.PersistentFlags().Parse(args), s.complete()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	got := session("--output", "json")
	if len(got.addresses) != 2 || got.vhost != "shop" || got.user != "ops" || got.password != "hidden" || got.tlsFiles.CA != "ca.pem" {
		t.Errorf("the current context gives %+v", got)
	}
	if got := session("--user", "me", "--password", "x", "--vhost", "/", "-a", "z:9"); got.addresses[0] != "z:9" || got.user != "me" || got.vhost != "/" {
		t.Errorf("flags give %+v", got)
	}
	if got := session("--context", "test"); got.addresses[0] != "c:3" || got.user != "" {
		t.Errorf("--context gives %+v", got)
	}
	ctl(0, "context use test")
	if got := session(); got.addresses[0] != "c:3" {
		t.Errorf("the new current context gives %+v", got)
	}
	ctl(0, "context delete test")
	if got := session(); got.addresses[0] != defaultAddress {
		t.Errorf("without a context: %+v", got)
	}
	if out := ctl(0, "__complete context use p"); !strings.HasPrefix(out, "prod\n") {
		t.Errorf("completed to %s", out)
	}
}
