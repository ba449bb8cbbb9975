// Package management serves those parts of RabbitMQ's HTTP API that clients' tools and tests rely
// on: the caller's identity, clients' connections to all nodes, which can be closed, and their
// consumers. Paths, names of fields and codes are RabbitMQ's. Everything else is in the gRPC API.
package management

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/gate"
)

// silentHeader names the nodes, separated by commas, that did not answer; the data of their clients
// is missing from the answer.
const silentHeader = "Quorate-Silent"

// Config describes a handler.
type Config struct {
	Broker  *broker.Broker // required
	Node    string
	Version string
	Logger  *slog.Logger // nil: nothing is logged
}

// api has the handlers. It holds nothing but its configuration, so that they may run concurrently.
type api struct{ Config }

// New returns the handler of /api/. It may be used concurrently.
func New(c Config) http.Handler {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := api{c}
	mux := http.NewServeMux()
	// A node that serves no clients still answers requests about itself (EX-16).
	mux.HandleFunc("GET /api/whoami", a.managed(a.whoami))
	mux.HandleFunc("GET /api/overview", a.managed(a.overview))
	mux.HandleFunc("GET /api/connections", a.managed(a.list))
	mux.HandleFunc("GET /api/connections/{$}", a.managed(a.list))
	mux.HandleFunc("GET /api/connections/{name}", a.managed(a.get))
	mux.HandleFunc("DELETE /api/connections/{name}", a.login(a.close))
	mux.HandleFunc("GET /api/consumers", a.managed(a.serving(a.consumers)))
	mux.HandleFunc("GET /api/consumers/{vhost...}", a.managed(a.serving(a.consumers)))
	return mux
}

// managed admits users with the tag management.
func (a api) managed(then http.HandlerFunc) http.HandlerFunc {
	return a.login(func(w http.ResponseWriter, r *http.Request) {
		if err := a.Broker.Logins.Require(r.Context(), identity.TagManagement); err != nil {
			a.fail(w, err)
			return
		}
		then(w, r)
	})
}

// originOf is the client's address and program, for the audit.
func originOf(r *http.Request) audit.Origin {
	return audit.Origin{Protocol: "http", Address: r.RemoteAddr, Client: r.UserAgent()}
}

// login admits users that log in.
func (a api) login(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := identity.Itself()
		if a.Broker.Logins.Authenticates() {
			var user string
			var err error
			checked := gate.Of(r.Context()).Check()
			who, user, err = a.identify(r)
			if checked(); err != nil {
				a.Broker.Audit.LoginRefused(r.Context(), audit.LoginTry{From: originOf(r), User: user}, err)
				if e, ok := errors.AsType[*failure.Error](err); ok && e.Unauthenticated {
					w.Header().Set("WWW-Authenticate", `Basic realm="Quorate"`)
				}
				a.fail(w, err)
				return
			}
		}
		gate.Of(r.Context()).Admit()
		r = r.WithContext(identity.WithIdentity(r.Context(), who))
		if firstOf(r.Context(), who.User()) {
			a.Broker.Audit.LoggedIn(r.Context(), originOf(r), "")
		}
		then(w, r)
	}
}

// identify returns the identity of the caller, and the user name that a caller with a password
// gave.
func (a api) identify(r *http.Request) (who *identity.Identity, user string, err error) {
	from := addressOf(r.RemoteAddr)
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "bearer") {
		who, err = a.Broker.Logins.LoginToken(r.Context(), token, from)
		return who, "", err
	}
	user, password, _ := r.BasicAuth()
	who, err = a.Broker.Logins.Login(r.Context(), user, password, from)
	return who, user, err
}

// serving refuses requests while the node serves no clients (EX-16).
func (a api) serving(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := a.Broker.Serving.Serves(); err != nil {
			a.fail(w, err)
			return
		}
		then(w, r)
	}
}

// addressOf returns the zero address for a text that is not an address.
func addressOf(remote string) netip.Addr {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr()
}

// fail answers with an error in RabbitMQ's form.
func (a api) fail(w http.ResponseWriter, err error) {
	code, kind := http.StatusInternalServerError, "internal_error"
	if e, ok := errors.AsType[*failure.Error](err); ok {
		switch {
		case e.Unauthenticated:
			code, kind = http.StatusUnauthorized, "not_authorized"
		case e.Class == failure.AccessRefused, e.Class == failure.NotAllowed:
			code, kind = http.StatusForbidden, "not_authorized"
		case e.Class == failure.NotFound:
			code, kind = http.StatusNotFound, "Object Not Found"
		case e.Class == failure.PreconditionFailed:
			code, kind = http.StatusBadRequest, "bad_request"
		case e.Class == failure.Unavailable, e.Class == failure.ResourceExhausted:
			code, kind = http.StatusServiceUnavailable, "unavailable"
		}
	}
	a.write(w, code, map[string]string{"error": kind, "reason": err.Error()})
}

// write sends v as JSON. An error comes after the status is sent, so it only goes to the log.
func (a api) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		a.Logger.Debug("an HTTP answer could not be sent", "error", err)
	}
}

// whoami answers GET /api/whoami; the name is empty where the node asks for no logins.
func (a api) whoami(w http.ResponseWriter, r *http.Request) {
	out := map[string]any{"name": "", "tags": []string{}}
	if who, err := a.Broker.Logins.Who(r.Context()); err == nil && who != nil {
		out["name"], out["tags"] = who.User(), who.Tags()
	}
	a.write(w, http.StatusOK, out)
}

// overview answers GET /api/overview with the few figures that clients look for there.
func (a api) overview(w http.ResponseWriter, r *http.Request) {
	all, ok := a.connections(w, r)
	if !ok {
		return
	}
	a.write(w, http.StatusOK, map[string]any{
		"product_name": "Quorate", "product_version": a.Version, "node": a.Node,
		"object_totals": map[string]int{"connections": len(all)},
	})
}

// connections returns the connections to all nodes that answer. If that fails it sends the error.
func (a api) connections(w http.ResponseWriter, r *http.Request) ([]connections.ConnectionInfo, bool) {
	all, silent, err := a.Broker.Connections.ClientConnections(r.Context(), "", "")
	if err != nil {
		a.fail(w, err)
		return nil, false
	}
	nameSilent(w, silent)
	return all, true
}

// nameSilent names in a header the nodes that did not answer, as the body has no place for them.
func nameSilent(w http.ResponseWriter, nodes []string) {
	if len(nodes) > 0 {
		w.Header().Set(silentHeader, strings.Join(nodes, ","))
	}
}

// list answers GET /api/connections.
func (a api) list(w http.ResponseWriter, r *http.Request) {
	all, ok := a.connections(w, r)
	if !ok {
		return
	}
	out := make([]connection, len(all))
	for i := range all {
		out[i] = toConnection(&all[i])
	}
	a.write(w, http.StatusOK, out)
}

// name returns the connection's name in a request. It holds spaces and an arrow, which clients
// escape once or twice.
func name(r *http.Request) string {
	n := r.PathValue("name")
	if again, err := url.PathUnescape(n); err == nil {
		return again
	}
	return n
}

// get answers GET /api/connections/NAME.
func (a api) get(w http.ResponseWriter, r *http.Request) {
	x, err := a.Broker.Connections.ClientConnection(r.Context(), name(r))
	if err != nil {
		a.fail(w, err)
		return
	}
	a.write(w, http.StatusOK, toConnection(&x))
}

// close answers DELETE /api/connections/NAME, for administrators. The audit records refused tries
// as well (AU-1).
func (a api) close(w http.ResponseWriter, r *http.Request) {
	reason := cmp.Or(r.Header.Get("X-Reason"), "Closed via management API")
	act := audit.Act{Operation: audit.OpConnectionClose, Kind: "connection", Name: name(r), From: originOf(r)}
	err := a.Broker.Audit.Audited(r.Context(), act, func(ctx context.Context) error {
		if err := a.Broker.Logins.Require(ctx, identity.TagAdministrator); err != nil {
			return err
		}
		if err := a.Broker.Serving.Serves(); err != nil {
			return err
		}
		return a.Broker.Connections.EndConnection(ctx, name(r), reason)
	})
	if err != nil {
		a.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
