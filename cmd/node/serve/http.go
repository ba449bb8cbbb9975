package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// serveHTTP answers over l until the server is closed, with TLS if secure is set. key is the
// listener's setting.
func (n *node) serveHTTP(key string, s *http.Server, l net.Listener, secure *tls.Config) {
	s.ReadHeaderTimeout = shutdownTimeout
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

// readMetricsToken takes the token of http.metrics_token_file.
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

// withToken lets in who shows the token, or everybody if there is none.
func (n *node) withToken(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if want := n.metricsToken.Load(); want != nil {
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			got := sha256.Sum256([]byte(token)) // equally long, whatever was sent
			if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				w.Header().Set("WWW-Authenticate", `Bearer realm="Quorate"`)
				http.Error(w, "this page tells names of queues: it wants the token of http.metrics_token_file, as authorization: Bearer", http.StatusUnauthorized)
				return
			}
		}
		then(w, r)
	}
}
