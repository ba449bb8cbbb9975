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
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/management/login"
	"github.com/quorate/quorate/management/slot"
	"github.com/quorate/quorate/management/stats"
)

// Config describes a handler.
type Config struct {
	Broker  *broker.Broker   // required
	Guard   *login.Guard     // required
	Stats   *stats.Collector // required
	Node    string
	Version string
	Cluster string
	Logger  *slog.Logger // required
	// Facts are what health checks use besides the broker; the zero value knows nothing, and checks that need it
	// fail.
	Facts Facts
}

// api has the handlers, which may run concurrently.
type api struct {
	Config
	messages  *slot.Slots
	streams   chan struct{} // has one element for each stream that is served
	imports   chan struct{} // has one element for each document that is imported
	previews  chan struct{} // has one element for each policy that is previewed
	heartbeat time.Duration // between the comments of a stream
}

// New returns the handler of /api/, /v1/ and /openapi.json. It may be used concurrently.
func New(c Config) http.Handler { return newAPI(c).mux() }

func newAPI(c Config) *api {
	return &api{
		Config: c, messages: slot.New(), streams: make(chan struct{}, MaxStreams), imports: make(chan struct{}, maxImports),
		previews:  make(chan struct{}, maxPreviews),
		heartbeat: streamHeartbeat,
	}
}

// mux serves all routes.
func (a *api) mux() http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes() {
		mux.Handle(r.method+" "+muxPath(r.path), a.handler(&r))
	}
	return markSlashes(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" {
			a.lost(mux, w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// noRoute is the field error of answers to requests for which there is no path, or none with their method.
const noRoute = "no_route"

// lost answers a request for which there is no route, in the form of all errors. The mux knows whether another method has
// one.
func (a *api) lost(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	answer := &bare{ResponseWriter: w}
	mux.ServeHTTP(answer, r)
	reason := "there is no path " + r.URL.Path + "; /openapi.json lists those that there are"
	if answer.code == http.StatusMethodNotAllowed {
		reason = "the path does not take " + r.Method + ", but " + w.Header().Get("Allow")
	}
	a.write(w, answer.code, map[string]string{"error": noRoute, "reason": reason})
}

// bare keeps the code of an answer, lets its header through, and drops the rest.
type bare struct {
	http.ResponseWriter
	code int
}

func (b *bare) WriteHeader(code int) { b.code = code }

func (b *bare) Write(p []byte) (int, error) { return len(p), nil }
