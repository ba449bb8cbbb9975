package rest

import (
	"context"
	"net/http"
	"slices"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/management/login"
)

// route is one method of one path.
type route struct {
	method, path string // path as http.ServeMux takes it
	// tag is what the caller needs besides a login; the broker checks rights on queues and exchanges
	// (VH-6) and what a user may see of a vhost (VH-12). "": nothing.
	tag string
	// open: a caller who sends no credentials is answered too (call.outside), and gets to know nothing that matters. One
	// who sends some for a tag must have it.
	open bool
	// always: a node answers even while it serves no clients (EX-16).
	always bool
	// act describes what the request changes, for the audit (AU-1); nil: nothing.
	act   func(c *call) audit.Act
	serve func(c *call) (reply, error)
	query []parameter // what the query may have
	says  string      // what it does, for the description of the API
}

// routes returns all routes.
func routes() []route {
	return slices.Concat(
		callerRoutes(), loginRoutes(), rightsRoutes(), overviewRoutes(), liveRoutes(), connectionRoutes(), consumerRoutes(),
		channelRoutes(),
		vhostRoutes(), limitRoutes(), exchangeRoutes(), queueRoutes(), queueChangeRoutes(), bindingRoutes(), messageRoutes(),
		policyRoutes(), parameterRoutes(),
		userRoutes(), permissionRoutes(), definitionRoutes(), clusterRoutes(), attemptRoutes(), healthRoutes(), memberRoutes(), operationRoutes(), backupRoutes(),
		messageJobRoutes(), explainRoutes(), eventRoutes(), logRoutes(), descriptionRoutes(),
	)
}

// identify returns the request with the identity of its caller, unless the route is open and the caller sends no
// credentials, or none that matter. The caller calls release when the request is answered.
func (a *api) identify(r *route, req *http.Request) (in *http.Request, outside bool, release func(), err error) {
	if r.open && a.Guard.Asks() && (r.tag == "" || req.Header.Get("Authorization") == "") {
		return req, true, a.Guard.Outside(req), nil
	}
	in, err = a.Guard.Header(req)
	return in, false, func() {}, err
}

// handler serves a route to callers that log in and have its tag.
func (a *api) handler(r *route) http.HandlerFunc {
	names := wildcards(r.path)
	return func(w http.ResponseWriter, req *http.Request) {
		unmarkSlashes(req, names)
		in, outside, release, err := a.identify(r, req)
		if err != nil {
			a.fail(w, err)
			return
		}
		defer release()
		c := &call{Request: in, api: a, route: r, w: w, outside: outside, answered: func() {}}
		defer func() { c.answered() }()
		var out reply
		if r.act == nil {
			out, err = r.run(in.Context(), c)
		} else {
			act := r.act(c)
			act.From = login.OriginOf(in)
			err = a.Broker.Audit.Audited(in.Context(), act, func(ctx context.Context) error {
				out, err = r.run(ctx, c)
				return err
			})
		}
		if err != nil {
			a.fail(w, err)
			return
		}
		a.send(w, out)
	}
}

// run returns an error that something does not exist, or is not allowed, only if this node can know (EX-16).
func (r *route) run(ctx context.Context, c *call) (reply, error) {
	out, err := r.permitted(ctx, c)
	return out, c.api.Broker.Serving.Definite(ctx, err)
}

// permitted checks what the route needs of the caller and the node, then serves it.
func (r *route) permitted(ctx context.Context, c *call) (reply, error) {
	c.Request = c.WithContext(ctx)
	b := c.api.Broker
	if r.tag != "" && !c.outside {
		if err := b.Logins.Require(ctx, r.tag); err != nil {
			return reply{}, err
		}
	}
	if !r.always {
		if err := b.Serving.Serves(); err != nil {
			return reply{}, err
		}
	}
	out, err := r.serve(c)
	if one, is := out.body.(object); is && out.code == 0 && !r.lists() {
		out.body = one.only(c.columns())
	}
	return out, err
}

// lists reports whether the answer may be a page of a list, whose rows have the columns.
func (r *route) lists() bool {
	return slices.ContainsFunc(r.query, func(p parameter) bool { return p.name == "page" })
}

// The tags, from the weakest to the strongest: each includes those before it, except policymaker.
const (
	management    = identity.TagManagement
	monitoring    = identity.TagMonitoring
	administrator = identity.TagAdministrator
	policymaker   = identity.TagPolicymaker
)
