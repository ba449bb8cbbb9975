package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/testnode"
	"github.com/quorate/quorate/management"
)

// served has a node serve a handler, and returns its address.
func served(t *testing.T, n *node, h http.Handler, secure *tls.Config) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	n.serveHTTP("listen.test", s, l, secure)
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// ask returns the status and the text of a page; 0 if there is none.
func ask(t *testing.T, secure *tls.Config, url, token string) (int, string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: secure}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	a, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return 0, err.Error()
	}
	text, err := io.ReadAll(a.Body)
	_ = a.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// listen.http speaks TLS if it is asked to and wants no certificate, whatever tls.client wants.
// Health and figures of the node are for all, names of queues for who has the token.
func TestHTTPOverTLS(t *testing.T) {
	ca, later := newCA(t), time.Now().Add(time.Hour)
	pair, _ := issue(t, ca, x509.ExtKeyUsageServerAuth, later)
	n := nodeWith(t, pair, ca, config.ClientAuthRequired)
	n.health = newHealth(t.TempDir())
	n.failed = make(chan error, 1)
	n.cfg.HTTP.MetricsTokenFile = filepath.Join(t.TempDir(), "token")
	token := func(text string) {
		t.Helper()
		if err := os.WriteFile(n.cfg.HTTP.MetricsTokenFile, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token("0123456789abcdef")
	if err := n.readMetricsToken(); err != nil {
		t.Fatal(err)
	}
	address := served(t, n, n.operations(), n.forAnybody())
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(ca.Pair().Cert)
	client := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trust, ServerName: "localhost"}
	const soon = http.StatusServiceUnavailable // the node has not started
	for _, x := range []struct {
		path, token string
		want        int
	}{
		{"/health/live", "", http.StatusOK},
		{"/health/startup", "", soon},
		{"/metrics", "", soon},
		{"/metrics/queues", "", http.StatusUnauthorized},
		{"/metrics/queues", "Bearer 0123456789abcdeF", http.StatusUnauthorized},
		{"/metrics/queues", "Bearer ", http.StatusUnauthorized},
		{"/metrics/queues", "Basic 0123456789abcdef", http.StatusUnauthorized},
		{"/metrics/queues", "0123456789abcdef", http.StatusUnauthorized},
		{"/metrics/queues", "Bearer 0123456789abcdef", soon},
		{"/metrics/queues", "bearer 0123456789abcdef", soon},
	} {
		if status, text := ask(t, client, "https://"+address+x.path, x.token); status != x.want {
			t.Errorf("%s with %q: %d %s, want %d", x.path, x.token, status, text, x.want)
		}
	}
	if status, text := ask(t, client, "http://"+address+"/health/live", ""); status != http.StatusBadRequest {
		t.Errorf("without TLS: %d %s", status, text)
	}
	if token("short"); n.readMetricsToken() == nil {
		t.Error("a short token is taken")
	}
	if status, _ := ask(t, client, "https://"+address+"/metrics/queues", "Bearer 0123456789abcdef"); status != soon {
		t.Errorf("%d with the old token, which stays in force", status)
	}
	n.cfg.HTTP.MetricsTokenFile = ""
	if err := n.readMetricsToken(); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(t, client, "https://"+address+"/metrics/queues", ""); status != soon {
		t.Errorf("%d without a token, which nobody asks for", status)
	}
}

// The management listener has the TLS of tls.client, with certificates of clients where they are
// wanted, and a login beside.
func TestManagementOverTLS(t *testing.T) {
	ca, later := newCA(t), time.Now().Add(time.Hour)
	pair, _ := issue(t, ca, x509.ExtKeyUsageServerAuth, later)
	_, own := issue(t, ca, x509.ExtKeyUsageClientAuth, later)
	n := nodeWith(t, pair, ca, config.ClientAuthRequired)
	n.failed = make(chan error, 1)
	b := broker.New(testnode.Start(t), broker.Config{})
	defer b.Close()
	address := served(t, n, management.New(management.Config{Broker: b, Node: "n1", Version: "v"}), n.forClients())
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(ca.Pair().Cert)
	client := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trust, ServerName: "localhost"}
	if status, text := ask(t, client, "https://"+address+"/api/whoami", ""); status != 0 || !strings.Contains(text, "certificate") {
		t.Errorf("without a certificate: %d %s", status, text)
	}
	client.Certificates = []tls.Certificate{own}
	if status, text := ask(t, client, "https://"+address+"/api/whoami", ""); status != http.StatusOK {
		t.Errorf("with one: %d %s", status, text)
	}
	if status, text := ask(t, nil, "https://"+address+"/api/whoami", ""); status != 0 {
		t.Errorf("by who does not know the authority: %d %s", status, text)
	}
	if status, text := ask(t, nil, "http://"+address+"/api/whoami", ""); status != http.StatusBadRequest {
		t.Errorf("without TLS: %d %s", status, text)
	}
}

// What an HTTP server says of its clients is in the node's log: bounded, and without what a
// terminal would obey. Faults of the node are all there.
func TestHTTPErrorsAreLogged(t *testing.T) {
	var said bytes.Buffer
	n := &node{cfg: &config.Config{}, log: slog.New(slog.NewTextHandler(&said, nil))}
	l := n.errorLog("listen.test")
	for range 3 * HTTPErrorLines {
		l.Printf("http: TLS handshake error from 192.0.2.1:5: %s", "\x1b[2J"+strings.Repeat("x", 10_000))
	}
	text := said.String()
	lines := strings.Count(text, "\n")
	if lines < HTTPErrorLines || lines > HTTPErrorLines+1 || len(text) > lines*(maxHTTPError+200) || strings.Contains(text, "\x1b") ||
		!strings.Contains(text, `level=INFO msg="an HTTP connection failed" listener=listen.test error="http: TLS handshake error from 192.0.2.1:5: \x1b[2Jxx`) {
		t.Errorf("%d lines of %d bytes:\n%s", lines, len(text), text)
	}
	said.Reset()
	l.Printf("http: panic serving 192.0.2.1:5: it broke\ngoroutine 1 [running]:\nmain.main()")
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "main.main") {
		t.Error(text)
	}
	// A real one, of a client that speaks no TLS.
	ca := newCA(t)
	pair, _ := issue(t, ca, x509.ExtKeyUsageServerAuth, time.Now().Add(time.Hour))
	m := nodeWith(t, pair, ca, config.ClientAuthNone)
	heard := make(chan string, 10)
	m.failed, m.log = make(chan error, 1), slog.New(slog.NewTextHandler(lineTo(heard), nil))
	address := served(t, m, http.NotFoundHandler(), m.forClients())
	if status, _ := ask(t, nil, "http://"+address+"/", ""); status != http.StatusBadRequest {
		t.Errorf("%d", status)
	}
	if line := <-heard; !strings.Contains(line, "HTTP request to an HTTPS server") {
		t.Error(line)
	}
}

// lineTo sends what is logged.
type lineTo chan string

func (l lineTo) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}
