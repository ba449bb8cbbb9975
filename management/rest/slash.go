package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// http.ServeMux takes a segment that is an escaped slash for the end of a path, which no wildcard matches. Clients of
// RabbitMQ name the default vhost so. Therefore the mux gets to see such a segment with a NUL after it, which no name
// has (C-3).
const (
	markedSlash   = "/\x00"
	escapedMarked = "%2F%00"
)

// userConnections is a path that http.ServeMux cannot distinguish from /api/connections/{name}/channels. It has
// muxUserConnections in its place.
const (
	userConnections    = "/api/connections/username/{name}"
	muxUserConnections = "/api/connections-of-user/{name}"
)

// muxPath is a route's path as the mux has it.
func muxPath(path string) string {
	if path == userConnections {
		return muxUserConnections
	}
	return path
}

// exchangeSegment is the place of an exchange's name in the paths about one, in segments.
const exchangeSegment = 4

// markSlashes marks the segments of a request's path that are an escaped slash, drops a slash at the end, which clients of
// RabbitMQ put behind the names of lists, and gives it the path of the mux. A DELETE keeps the slash: there it means
// that a name was forgotten, and without it the path would name the parent. Within a path about an exchange an empty
// name is that of the default exchange, which http.ServeMux would take for a mistake.
func markSlashes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segments, found := strings.Split(r.URL.EscapedPath(), "/"), false
		if last := len(segments) - 1; last > 1 && segments[last] == "" && r.Method != http.MethodDelete {
			segments, found = segments[:last], true
		}
		for i, s := range segments {
			if strings.EqualFold(s, "%2F") {
				segments[i], found = escapedMarked, true
			}
		}
		if len(segments) > exchangeSegment+1 && segments[1] == "api" && segments[2] == "exchanges" && segments[exchangeSegment] == "" {
			segments[exchangeSegment], found = defaultExchange, true
		}
		if prefix := strings.Split(userConnections, "/"); len(segments) == len(prefix) && slices.Equal(segments[:4], prefix[:4]) {
			segments, found = []string{"", "api", "connections-of-user", segments[4]}, true
		}
		if found {
			marked := *r.URL
			marked.RawPath = strings.Join(segments, "/")
			if path, err := url.PathUnescape(marked.RawPath); err == nil { // an escaped path always can
				marked.Path = path
			}
			r = r.WithContext(r.Context())
			r.URL = &marked
		}
		next.ServeHTTP(w, r)
	})
}

// unmarkSlashes gives the values of a path's wildcards their marked slashes back.
func unmarkSlashes(r *http.Request, wildcards []string) {
	for _, name := range wildcards {
		if r.PathValue(name) == markedSlash {
			r.SetPathValue(name, "/")
		}
	}
}

// wildcards returns the names of a path's wildcards.
func wildcards(path string) (names []string) {
	for _, s := range strings.Split(path, "/") {
		if name, is := strings.CutPrefix(s, "{"); is {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}
