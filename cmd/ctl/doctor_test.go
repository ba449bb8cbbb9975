package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// bundle reads the files of a bundle.
func bundle(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(h.Name)] = string(b)
	}
}

// The doctor finds what is wrong and nothing else, and its bundle has no secrets and no messages.
func TestDoctor(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	c := testcluster.Start(t, 1)
	log := slog.New(c.Lines(0).Handler(slog.NewTextHandler(io.Discard, nil))) //nolint:sloglint // DiscardHandler takes no lines at all
	log.Warn("a shovel ended", "uri", "amqp://u:a-secret@h")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out := filepath.Join(t.TempDir(), "bundle.tar.gz")
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "quorate_up 1\nprocess_open_fds 95\nprocess_max_fds 100\n")
	}))
	defer metrics.Close()
	ctl := func(want int, contains string, args ...string) {
		t.Helper()
		var o, e shared
		got := run(ctx, append([]string{"-a", strings.Join(c.Addrs(), ",")}, args...), &o, &e)
		all := blanks.ReplaceAllString(o.String()+e.String(), " ")
		if got != want || !strings.Contains(all, contains) {
			t.Errorf("quoratectl %s: %d, want %d and %q\n%s", strings.Join(args, " "), got, want, contains, all)
		}
	}
	for ctx.Err() == nil { // a disk may be slow for a while where much else writes
		var o, e shared
		if run(ctx, []string{"-a", c.Addrs()[0], "doctor"}, &o, &e) == 0 || !strings.Contains(o.String(), "disks") {
			break
		}
	}
	ctl(0, "ok", "doctor")
	ctl(0, "", "queue", "declare", "full", "-x", "x-max-length=2")
	ctl(0, "", "publish", "full", "a-secret-message")
	ctl(0, "", "publish", "full", "a-secret-message")
	ctl(0, "", "queue", "declare", "stuck", "-x", "x-dead-letter-exchange=nowhere", "-x", "x-dead-letter-strategy=at-least-once",
		"-x", "x-overflow=reject-publish", "-x", "x-message-ttl=1")
	ctl(0, "", "publish", "stuck", "a-secret-message")
	ctl(0, "", "vhost", "limits", "/", "--max-queues", "2")
	shovel := filepath.Join(t.TempDir(), "shovel.json")
	if err := os.WriteFile(shovel, []byte(`{"parameters":[{"component":"shovel","vhost":"/","name":"move","value":{"src-uri":"amqp://u:a-secret@h","key":"a-secret"}}],
		"global_parameters":[{"name":"plugin","value":"a-secret"}],
		"exchanges":[{"name":"x","vhost":"/","type":"fanout","arguments":{"x-uri":"amqps://u:a%2Fsecret@h:5671/%2F"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctl(0, "", "definitions", "import", shovel)
	for ctx.Err() == nil {
		var o, e shared
		if run(ctx, []string{"-a", c.Addrs()[0], "doctor"}, &o, &e); strings.Contains(o.String(), "dead-letters") {
			break
		}
	}
	ctl(1, `limits queue "full" in vhost "/" 2 messages are ready`, "doctor")
	ctl(1, "limits vhost / max-queues is 2, and 2 are used", "doctor")
	ctl(1, `dead-letters queue "stuck" in vhost "/" 1 dead letters wait`, "doctor", "--out", out,
		"--metrics", strings.Replace(metrics.URL, "://", "://ops:a-secret@", 1), "--metrics", "http://ops:a-secret@127.0.0.1:1/")
	ctl(1, "exists", "doctor", "--out", out)
	files := bundle(t, out)
	for name, want := range map[string]string{
		"cluster.json": "node-0", "queues.json": "stuck", "definitions.json": "move", "problems.json": "95 of 100 file descriptors", "limits.json": "max-queues",
		"connections.json": "[", "consumers.json": "[", "operations.json": "[", "version.json": "quoratectl", "metrics-1.txt": "quorate_up 1", "metrics-2.txt": "refused",
		"figures.json": "sync_p99_us", "log-node-0.txt": "warn  a shovel ended uri=amqp://…@h",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q:\n%s", name, want, files[name])
		}
	}
	if !strings.Contains(files["definitions.json"], "amqps://…@h:5671") || !strings.Contains(files["metrics-1.txt"], "# http://…@127.0.0.1") {
		t.Errorf("what is no secret is missing: %s\n%s", files["definitions.json"], files["metrics-1.txt"])
	}
	for name, text := range files {
		if strings.Contains(text, "password_hash") || strings.Contains(text, "$argon2") || strings.Contains(text, "secret") {
			t.Errorf("%s has a secret:\n%s", name, text)
		}
	}
}

// Nodes whose disk is slow, or whose memory runs short, are found, and no others.
func TestStrained(t *testing.T) {
	value := func(v uint64) *uint64 { return &v }
	for name, test := range map[string]struct {
		node client.NodeFigures
		want string // check and a part of the problem; "": none
	}{
		"nothing is known":  {client.NodeFigures{}, ""},
		"quick":             {client.NodeFigures{SyncP99: value(499_999)}, ""},
		"slow":              {client.NodeFigures{SyncP99: value(750_000)}, "disks one sync of its log in a hundred takes 750ms"},
		"memory":            {client.NodeFigures{Memory: value(89), MemoryHigh: 100}, ""},
		"memory near":       {client.NodeFigures{Memory: value(90), MemoryHigh: 100}, "limits 90 bytes of memory"},
		"memory, unlimited": {client.NodeFigures{Memory: value(90)}, ""},
	} {
		test.node.ID = "n1"
		found := strained([]client.NodeFigures{test.node})
		got := ""
		for _, p := range found {
			got += p.Check + " " + p.Problem
			if p.Object != "node n1" || p.Remedy == "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if test.want == "" && got != "" || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Of a node's metrics, what is nearly used up is found.
func TestShortOf(t *testing.T) {
	const connections = "quorate_gate_connections{gate=\"clients\"} %s\nquorate_gate_connections{gate=\"peers\"} 99\nquorate_gate_connections_limit{gate=\"clients\"} 1e+04\n"
	for text, want := range map[string]string{
		"": "", "# no such host\n": "", "process_open_fds 95\n": "", "process_open_fds 89\nprocess_max_fds 100\n": "",
		"# HELP process_open_fds Open files.\nprocess_open_fds 90\nprocess_max_fds 100\n": "90 of 100 file descriptors are used",
		strings.Replace(connections, "%s", "8999", 1):                                     "",
		strings.Replace(connections, "%s", "9000", 1):                                     "9000 of 10000 connections of clients are used",
	} {
		got := ""
		for _, p := range shortOf("http://n1/metrics", text) {
			got += p.Problem
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
