package rest

import (
	"net/http"
	"time"
)

// Route is a route, as tests look at it.
type Route struct {
	Method, Path, Documented, Tag string
	Changes, Open                 bool
	Query                         []string
}

// Routes returns all routes.
func Routes() (all []Route) {
	for _, r := range routes() {
		out := Route{Method: r.method, Path: r.path, Documented: r.documentedPath(), Tag: r.tag, Changes: r.act != nil, Open: r.open}
		for _, p := range r.query {
			out.Query = append(out.Query, p.name)
		}
		all = append(all, out)
	}
	return all
}

// NewWith is New with a bound of streams and the time between their comments. It also returns how
// many streams are served.
func NewWith(c Config, streams int, heartbeat time.Duration) (h http.Handler, served func() int) {
	a := newAPI(c)
	a.streams, a.heartbeat = make(chan struct{}, streams), heartbeat
	return a.mux(), func() int { return len(a.streams) }
}
