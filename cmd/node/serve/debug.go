package serve

import (
	"context"
	"net/http"
	"net/http/pprof"
)

// profiles serves listen.debug: Go's profiles of this process.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index) // and each profile under its name
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// serveDebug serves profiles from the first moment, if it is configured: a start that hangs shows
// in them.
func (n *node) serveDebug(ctx context.Context) error {
	address := n.cfg.Listen.Debug
	if address == "" {
		return nil
	}
	l, err := listen(ctx, "listen.debug", address)
	if err != nil {
		return err
	}
	n.debug = &http.Server{Handler: profiles()} //nolint:gosec // serveHTTP sets the timeouts
	n.log.Warn("profiles are served without a login; whoever reaches them sees parts of the memory and can slow the node down",
		"address", address)
	n.serveHTTP("listen.debug", n.debug, n.gates.probes.Listen(l), nil)
	return nil
}
