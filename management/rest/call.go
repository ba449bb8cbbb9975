package rest

import (
	"net/http"
	"net/url"
)

// call is one request of a caller that has logged in.
type call struct {
	*http.Request // with the caller's identity in its context
	api           *api
	w             http.ResponseWriter // for routes that stream; others return a reply
}

// vhost is the vhost of the path; "" where the path has none.
func (c *call) vhost() string { return c.PathValue("vhost") }

// name is the name of the path. Clients escape it once or, for connections, twice.
func (c *call) name() string {
	n := c.PathValue("name")
	if again, err := url.PathUnescape(n); err == nil {
		return again
	}
	return n
}

// flag reports whether a parameter of the query is there and not false.
func (c *call) flag(name string) bool {
	v, is := c.URL.Query()[name]
	return is && v[0] != "false"
}
