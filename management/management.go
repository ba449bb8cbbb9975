// Package management joins what a node serves to operators over HTTP: RabbitMQ's HTTP API and
// Quorate's own (package rest).
package management

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/management/login"
	"github.com/quorate/quorate/management/rest"
)

// Config describes a handler.
type Config struct {
	Broker  *broker.Broker // required
	Node    string
	Version string
	Cluster string
	Logger  *slog.Logger // nil: nothing is logged
}

// New returns the handler of the management listener. It may be used concurrently.
func New(c Config) http.Handler {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	guard := login.New(c.Broker)
	mux := http.NewServeMux()
	api := rest.New(rest.Config{Broker: c.Broker, Guard: guard, Node: c.Node, Version: c.Version, Cluster: c.Cluster, Logger: c.Logger})
	mux.Handle("/api/", api)
	mux.Handle("/v1/", api)
	return mux
}

// ConnContext remembers the logins of a connection, so that the log has each user once. It is for
// http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context { return login.ConnContext(ctx, c) }
