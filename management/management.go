// Package management joins what a node serves to operators over HTTP: RabbitMQ's HTTP API and
// Quorate's own (package rest), and the web page (package page).
package management

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/management/login"
	"github.com/quorate/quorate/management/page"
	"github.com/quorate/quorate/management/rest"
	"github.com/quorate/quorate/management/stats"
)

// Config describes a handler.
type Config struct {
	Broker  *broker.Broker // required
	Node    string
	Version string
	Cluster string
	Logger  *slog.Logger // nil: nothing is logged
	Facts   rest.Facts
	Stats   *stats.Collector // nil: one of the handler's own
}

// Handler serves the management listener. It may be used concurrently.
type Handler struct {
	http.Handler
	own *stats.Collector // nil: the caller owns it
}

// Close ends what is being collected from other nodes, unless the collector is the caller's. Requests fail from then on.
func (h *Handler) Close() {
	if h.own != nil {
		h.own.Close()
	}
}

// New returns the handler of the management listener. It refuses changes that the page of another site sends, based
// on what browsers report about a request's origin. Otherwise a browser that is logged in, or reaches a node that
// asks for no login, would send them.
func New(c Config) *Handler {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	guard := login.New(c.Broker)
	var own *stats.Collector
	if c.Stats == nil {
		own = stats.New(stats.Config{Broker: c.Broker, Logger: c.Logger})
		c.Stats = own
	}
	api := rest.New(rest.Config{
		Broker: c.Broker, Guard: guard, Stats: c.Stats, Node: c.Node, Version: c.Version, Cluster: c.Cluster, Logger: c.Logger, Facts: c.Facts,
	})
	var types []page.ExchangeType
	for _, t := range broker.ExchangeTypes() {
		types = append(types, page.ExchangeType(t))
	}
	site := page.New(page.Config{API: api, Guard: guard, Logger: c.Logger, ExchangeTypes: types})
	// No http.ServeMux: it would send clients away that leave the name of the default exchange empty in a path.
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isOfAPI(r.URL.Path) {
			api.ServeHTTP(w, r)
		} else {
			site.ServeHTTP(w, r)
		}
	})
	return &Handler{Handler: http.NewCrossOriginProtection().Handler(both), own: own}
}

// isOfAPI reports whether a path is the API's; all others are the page's.
func isOfAPI(path string) bool {
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/v1/") || path == "/openapi.json"
}

// ConnContext remembers the logins of a connection, so that the log has each user once. It is for
// http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context { return login.ConnContext(ctx, c) }
