package rest

import "net/http"

// call is one request of a caller that has logged in.
type call struct {
	*http.Request // with the caller's identity in its context
	api           *api
	route         *route
	w             http.ResponseWriter // for routes that stream; others return a reply
	outside       bool                // the caller has not logged in, which an open route does not ask for
	answered      func()              // called when the answer is written, or cannot be
}

// vhost is the vhost of the path; "" where the path has none.
func (c *call) vhost() string { return c.PathValue("vhost") }

// name is the name of the path.
func (c *call) name() string { return c.PathValue("name") }
