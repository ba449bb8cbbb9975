// Package rest serves RabbitMQ's HTTP API under /api/ and what Quorate has beyond it under /v1/, as
// a thin translation to package broker. Paths, names of fields, status codes and errors under /api/
// are RabbitMQ's, so that its tools work unchanged.
//
// # Reading order
//
//   - One request: call.go, reply.go, body.go, list.go.
//   - The routes: route.go, rest.go; then a file for each group of paths.
package rest

import (
	"log/slog"
	"net/http"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/management/login"
)

// Config describes a handler.
type Config struct {
	Broker  *broker.Broker // required
	Guard   *login.Guard   // required
	Node    string
	Version string
	Cluster string
	Logger  *slog.Logger // required
}

// api has the handlers, which may run concurrently.
type api struct {
	Config
	messages chan struct{} // holds a token for each request that has messages in memory
}

// New returns the handler of /api/ and /v1/. It may be used concurrently.
func New(c Config) http.Handler {
	a := &api{Config: c, messages: make(chan struct{}, messageRequests)}
	mux := http.NewServeMux()
	for _, r := range routes() {
		mux.Handle(r.method+" "+r.path, a.handler(&r))
	}
	return markSlashes(mux)
}
