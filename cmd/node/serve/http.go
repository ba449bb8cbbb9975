package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/lograte"
)

// headerTimeout bounds the headers of a request.
const headerTimeout = 10 * time.Second

// serveHTTP serves l until the server is closed, with TLS if secure is set. key is the name of the
// listener's setting.
func (n *node) serveHTTP(key string, s *http.Server, l net.Listener, secure *tls.Config) {
	s.ReadHeaderTimeout = headerTimeout
	s.ErrorLog = n.errorLog(key)
	s.Protocols = &http.Protocols{} // HTTP/2 would constrain tls.cipher_suites
	s.Protocols.SetHTTP1(true)
	s.TLSConfig = secure
	serve := s.Serve
	if secure != nil {
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	go func() {
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.failed <- fmt.Errorf("%s: %w", key, err)
		}
	}()
}

// Bounds of log lines about faults of HTTP clients.
const (
	// HTTPErrorLines is how many lines may come at once, and HTTPErrorEvery the time after which one
	// more may come. A line has the number of those left out before it.
	HTTPErrorLines = 20
	HTTPErrorEvery = 5 * time.Second
	// maxHTTPError bounds such a line, and maxHTTPPanic one about a panic in the node, in bytes.
	maxHTTPError, maxHTTPPanic = 512, 8 << 10
)

// httpErrors writes the messages of an HTTP server to the node's log.
type httpErrors struct {
	log      *slog.Logger
	listener string
	lines    lograte.Lines
}

// errorLog is the log of a listener's HTTP server.
func (n *node) errorLog(listener string) *log.Logger {
	return log.New(&httpErrors{
		log: n.log, listener: listener, lines: lograte.Lines{Burst: HTTPErrorLines, Every: HTTPErrorEvery},
	}, "", 0)
}

// Write takes one line, or a panic with its stack.
func (h *httpErrors) Write(text []byte) (int, error) {
	said := strings.TrimSpace(string(text))
	skipped, ok := h.lines.Take(time.Now())
	switch {
	case strings.HasPrefix(said, "http: panic serving"): // the node's own fault, which is always logged
		h.log.Error("an HTTP request failed", "listener", h.listener, "error", said[:min(len(said), maxHTTPPanic)])
	case ok:
		h.log.Info("an HTTP connection failed", "listener", h.listener, "error", said[:min(len(said), maxHTTPError)], "left_out", skipped)
	}
	return len(text), nil
}

// readMetricsToken reads the token of http.metrics_token_file.
func (n *node) readMetricsToken() error {
	token, err := n.cfg.MetricsToken()
	if err != nil {
		return err
	}
	if token == "" {
		n.metricsToken.Store(nil)
		return nil
	}
	sum := sha256.Sum256([]byte(token))
	n.metricsToken.Store(&sum)
	return nil
}

// withToken admits requests with the token, or all if no token is set.
func (n *node) withToken(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if want := n.metricsToken.Load(); want != nil {
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			got := sha256.Sum256([]byte(token)) // the same length whatever was sent
			if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", `Bearer realm="Quorate"`)
				http.Error(w, "this page shows names of queues: send the token of http.metrics_token_file as authorization: Bearer", http.StatusUnauthorized)
				return
			}
		}
		then(w, r)
	}
}
