package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/checks"
)

func TestCertificateEnd(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.EnableHTTP2 = true // as gRPC
	server.StartTLS()
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "https://")
	want := server.Certificate().NotAfter
	if ends, err := certificateEnd(t.Context(), address); err != nil || !ends.Equal(want) {
		t.Errorf("%v, %v, want %v", ends, err, want)
	}
	l := &look{Look: checks.Look{Status: client.ClusterStatus{Nodes: []client.ClusterNode{{ID: "a", ClientAddress: address}}}}, within: time.Until(want) - time.Hour}
	if found := l.certificates(t.Context()); len(found) > 0 {
		t.Errorf("it ends in time: %+v", found)
	}
	l.within += 2 * time.Hour
	if found := l.certificates(t.Context()); len(found) != 1 || !strings.Contains(found[0].Problem, "ends on "+want.UTC().Format(time.RFC3339)) {
		t.Errorf("it ends soon: %+v", found)
	}
	server.Close()
	if found := l.certificates(t.Context()); len(found) != 1 || !strings.Contains(found[0].Problem, "refused") {
		t.Errorf("nobody is there: %+v", found)
	}
}
