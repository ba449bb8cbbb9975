package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
)

const rabbitExport = "../../definitions/testdata/rabbitmq-3.11.json"

// rabbit answers as RabbitMQ's management does, and takes one password.
func rabbit(t *testing.T, document []byte) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.Method != http.MethodGet || r.URL.Path != "/api/definitions" && r.URL.Path != "/mq/api/definitions":
			http.NotFound(w, r)
		case user != "ops" || password != "s:e/c@ret":
			http.Error(w, `{"error":"not_authorized"}`, http.StatusUnauthorized)
		default:
			_, _ = w.Write(document)
		}
	})
}

// A definitions export of RabbitMQ is reported on, and imported: from a file and from its
// management.
func TestMigrateRabbitMQ(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	document, err := os.ReadFile(rabbitExport)
	if err != nil {
		t.Fatal(err)
	}
	plain, secure := httptest.NewServer(rabbit(t, document)), httptest.NewTLSServer(rabbit(t, document))
	defer plain.Close()
	defer secure.Close()
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	ca := file("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	odd := file("odd.json", []byte(`{"queues":[{"vhost":"/","name":"log","arguments":{"x-queue-type":"stream"}},
		{"vhost":"/","name":"fast","arguments":{"x-queue-type":"classic","x-queue-mode":"lazy"}},
		{"vhost":"/","name":"same","arguments":{"x-queue-type":"quorum"}}]}`))
	in := func(base, login, path string) string { return strings.Replace(base, "://", "://"+login, 1) + path }
	const login = "ops:s%3Ae%2Fc%40ret@"
	c := testcluster.Start(t, 1)
	for _, row := range []struct {
		args     []string
		password string // of the environment
		code     int
		want     []string
		never    string
	}{
		{args: []string{rabbitExport}, want: []string{
			"will not be imported: 3 objects", "ha-all", "changed: 19 objects", "becomes a classic queue", "unchanged: 39 objects (16 bindings, 7 exchanges", "--apply",
		}},
		{args: []string{odd}, code: exitPartDone, want: []string{
			"will not be imported: 1 object\n", "there are no streams", "changed: 1 object\n", "x-queue-mode", "unchanged: 1 object (1 queue)",
		}},
		{args: []string{odd, "-o", "json"}, code: exitPartDone, want: []string{`"severity": "lost"`, `"severity": "changed"`, `"severity": "same"`}},
		{args: []string{in(plain.URL, login, "")}, want: []string{"will not be imported: 3 objects"}},
		{args: []string{in(plain.URL, login, "/mq/")}, want: []string{"will not be imported: 3 objects"}},
		{args: []string{in(plain.URL, login, "/api/definitions")}, want: []string{"will not be imported: 3 objects"}},
		{args: []string{in(plain.URL, "ops@", "/")}, password: "s:e/c@ret", want: []string{"will not be imported: 3 objects"}},
		{args: []string{in(plain.URL, "ops:wrong@", "/")}, code: exitRefused, want: []string{"401", "user and password", "administrator"}, never: "wrong"},
		{args: []string{in(plain.URL, login, "/api/definitions/nix")}, code: exitRefused, want: []string{"404"}, never: "ret@"},
		{args: []string{in(secure.URL, login, ""), "--rabbitmq-ca", ca}, want: []string{"will not be imported: 3 objects"}},
		{args: []string{in(secure.URL, login, "")}, code: exitRefused, want: []string{"--rabbitmq-ca"}, never: "s%3A"},
		{args: []string{"http://ops:secret@127.0.0.1:1"}, code: exitRefused, want: []string{"127.0.0.1:1"}, never: "secret"},
		{args: []string{"http://ops:sec/ret@host"}, code: exitUsage, want: []string{"%XX"}, never: "sec"},
		{args: []string{filepath.Join(dir, "none.json")}, code: exitUsage, want: []string{"no such file"}},
		{args: []string{"ftp://host"}, code: exitUsage, want: []string{"no such file"}},
		{args: []string{rabbitExport, "--apply"}, want: []string{"was not imported: 3 objects", "57 created"}},
		{args: []string{rabbitExport}, want: []string{"0 created, 57 unchanged"}},
	} {
		t.Setenv(rabbitPasswordEnv, row.password)
		var out, errs shared
		args := append([]string{"-a", strings.Join(c.Addrs(), ","), "migrate", "rabbitmq"}, row.args...)
		code := run(t.Context(), args, &out, &errs)
		said := out.String() + errs.String()
		for _, w := range row.want {
			if !strings.Contains(said, w) {
				t.Errorf("%q does not say %q:\n%s", row.args, w, said)
			}
		}
		if code != row.code || row.never != "" && strings.Contains(said, row.never) {
			t.Errorf("%q ends with %d, want %d:\n%s", row.args, code, row.code, said)
		}
	}
}
