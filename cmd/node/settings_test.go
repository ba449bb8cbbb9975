package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/cmd/node/config"
)

// commandLine runs a command line and returns what it writes.
func commandLine(t *testing.T, args ...string) (out, warnings string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// settingsFile writes a file with settings.
func settingsFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestConfigValidate(t *testing.T) {
	key := settingsFile(t, "c2VjcmV0IG9mIDMyIGJ5dGVzIGZvciB0aGUgdGVzdCE=\n")
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	good := settingsFile(t, "node_id: n1\ncluster:\n  gossip_key_file: "+key+"\n")
	out, warnings, err := commandLine(t, "config", "validate", "--config", good)
	if err != nil || out != "the settings are valid\n" || !strings.Contains(warnings, "warning: cluster.gossip_key_file: every user of this host can read or change "+key) {
		t.Errorf("%v: %q, %q", err, out, warnings)
	}

	missing := settingsFile(t, "node_id: n1\ncluster:\n  gossip_key_file: /nowhere/gossip.key\n  expect: 9\nlog:\n  level: loud\n")
	_, _, err = commandLine(t, "config", "validate", "--config", missing)
	for _, want := range []string{"cluster.expect is 9", `log.level is "loud"`, "/nowhere/gossip.key"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	elsewhere := settingsFile(t, "node_id: n1\ncluster:\n  gossip_key_file: /nowhere/gossip.key\n")
	if out, _, err := commandLine(t, "config", "validate", "--files=false", "--config", elsewhere); err != nil || out != "the settings are valid\n" {
		t.Errorf("%v: %q", err, out)
	}
	unknown := settingsFile(t, "listen:\n  clients: 1.2.3.4:5\n")
	if _, _, err := commandLine(t, "config", "validate", "--config", unknown); err == nil || !strings.Contains(err.Error(), `did you mean "listen.client"`) {
		t.Error(err)
	}
}

func TestConfigEffective(t *testing.T) {
	file := settingsFile(t, "node_id: n1\ncluster:\n  admission: open\n  join: [a:1, b:2]\nauth:\n  default_password: sesame\n")
	t.Setenv("QUORATE_TIMEOUTS__DRAIN", "5s")
	out, _, err := commandLine(t, "config", "effective", "--changed", "--log.level", "warn", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(out) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"SETTING VALUE FROM", "node_id n1 " + file, "cluster.join a:1,b:2 " + file, "cluster.admission open " + file,
		"auth.default_password (hidden) " + file, "log.level warn flag --log.level", "timeouts.drain 5s variable QUORATE_TIMEOUTS__DRAIN",
	}
	if got := strings.Join(rows, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}

	out, _, err = commandLine(t, "config", "effective", "-o", "json", "--config", file)
	var all []setting
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	if err != nil || len(all) != len(config.Keys()) || strings.Contains(out, "sesame") || strings.Contains(out, "null") {
		t.Errorf("%v: %d settings of %d:\n%s", err, len(all), len(config.Keys()), out)
	}

	// What is wrong is shown with the rest, and reported.
	out, _, err = commandLine(t, "config", "effective", "--changed", "--cluster.expect", "9", "--config", file)
	if err == nil || !strings.Contains(err.Error(), "cluster.expect is 9") || !strings.Contains(out, "cluster.expect") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestConfigExplain(t *testing.T) {
	out, _, err := commandLine(t, "config", "explain", "timeouts.drain", "log.level", "--timeouts.drain", "7s")
	for _, want := range []string{
		"timeouts.drain\n", "  type      duration, such as 500ms or 1h\n", "  default   1m0s\n", "  variable  QUORATE_TIMEOUTS__DRAIN\n",
		"  applies   without a restart\n", "  value     7s\n", "  from      flag --timeouts.drain\n", "log.level\n  debug, info, warn or error\n",
	} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: no %q in\n%s", err, want, out)
		}
	}
	out, _, err = commandLine(t, "config", "explain", "cluster.reconcile")
	if err != nil || strings.Count(out, "  variable  QUORATE_CLUSTER__RECONCILE__") != 6 {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, _, err = commandLine(t, "config", "explain", "timeout.suspect"); err == nil || !strings.Contains(err.Error(), `did you mean "timeouts.suspect"`) {
		t.Error(err)
	}
	for _, k := range config.Keys() {
		if out, _, err := commandLine(t, "config", "explain", k.Name); err != nil || !strings.Contains(out, k.Env()) {
			t.Errorf("%s: %v:\n%s", k.Name, err, out)
		}
	}
}
