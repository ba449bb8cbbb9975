package serve

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster"
)

// Probes answer about this node alone, and say why.
func TestHealth(t *testing.T) {
	h := newHealth(t.TempDir())
	var ready error
	probe := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	expect := func(path string, code int, text string) {
		t.Helper()
		if c, body := probe(path); c != code || !strings.Contains(body, text) {
			t.Errorf("%s: %d %s, want %d and %q", path, c, body, code, text)
		}
	}
	expect("/health/startup", 503, "the node is starting")
	expect("/health/ready", 503, "the node is starting")
	expect("/health/live", 200, `"status":"ok"`)
	h.starting(cluster.StartProgress{Phase: cluster.StartLog, Done: 3, Total: 40, Unit: "segments"})
	expect("/health/startup", 503, "opening the log: 3 of 40 segments")
	expect("/health/ready", 503, "opening the log: 3 of 40 segments")

	warning := ""
	h.started(func() error { return ready }, func() string { return warning })
	expect("/health/startup", 200, "ok")
	ready = errors.New("the catalog has no leader")
	expect("/health/ready", 503, "the catalog has no leader")
	ready = nil
	expect("/health/ready", 200, "ok")

	warning = "the disk is low"
	expect("/health/ready", 200, `"warning":"the disk is low"`)

	h.named("n1 does not resolve")
	expect("/health/ready", 200, `"warning":"n1 does not resolve; the disk is low"`)
	warning = ""
	expect("/health/ready", 200, `"warning":"n1 does not resolve"`)
	h.named("")

	h.written, h.fault = time.Now().Add(-time.Hour), errors.New("disk full")
	expect("/health/live", 503, "disk full")
	expect("/health/ready", 200, "ok")
	if err := writeSynced(filepath.Join(t.TempDir(), "missing", "alive")); err == nil {
		t.Error("a write into a missing directory passes")
	}
}
