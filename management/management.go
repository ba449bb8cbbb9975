// Package management serves those parts of RabbitMQ's HTTP API that clients' tools and tests
// rely on: who the caller is, and the AMQP connections of this node, which can be closed.
// Paths, names of fields and codes are RabbitMQ's. Everything else is in the gRPC API.
package management

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/quorate/quorate/broker"
)

// Connection is an AMQP connection of this node.
type Connection struct {
	Name     string
	User     string
	VHost    string
	Channels int
	Peer     netip.AddrPort
	// ClientName is what the client calls itself; "": nothing.
	ClientName string
	// SinceMs is when it was opened, in milliseconds since the Unix epoch.
	SinceMs int64
	// Blocked: its publishes are held back.
	Blocked bool
}

// Connections are those of this node.
type Connections interface {
	// List returns all that are open.
	List() []Connection
	// Close ends one with a reason, and tells whether there was one of the name.
	Close(name, reason string) bool
}

// Config describes a handler.
type Config struct {
	Broker      *broker.Broker // needed
	Connections Connections    // needed
	Node        string
	Version     string
	Logger      *slog.Logger // nil: nothing is logged
}

type api struct{ Config }

// New returns the handler of /api/. It may be used concurrently.
func New(c Config) http.Handler {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := api{c}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/whoami", a.as(broker.TagMonitoring, a.whoami))
	mux.HandleFunc("GET /api/overview", a.as(broker.TagMonitoring, a.overview))
	mux.HandleFunc("GET /api/connections", a.as(broker.TagMonitoring, a.list))
	mux.HandleFunc("GET /api/connections/{$}", a.as(broker.TagMonitoring, a.list))
	mux.HandleFunc("GET /api/connections/{name}", a.as(broker.TagMonitoring, a.get))
	mux.HandleFunc("DELETE /api/connections/{name}", a.as(broker.TagAdministrator, a.close))
	return mux
}

// as lets in who logs in and has the tag.
func (a api) as(tag string, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := broker.Itself()
		if a.Broker.Authenticates() {
			user, password, _ := r.BasicAuth()
			var err error
			if who, err = a.Broker.Login(r.Context(), user, password, addressOf(r.RemoteAddr)); err != nil {
				w.Header().Set("WWW-Authenticate", `Basic realm="Quorate"`)
				a.fail(w, err)
				return
			}
		}
		r = r.WithContext(broker.WithIdentity(r.Context(), who))
		if err := a.Broker.Require(r.Context(), tag); err != nil {
			a.fail(w, err)
			return
		}
		then(w, r)
	}
}

// addressOf is the zero address for what is none.
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
	if e, ok := errors.AsType[*broker.Error](err); ok {
		switch {
		case e.Unauthenticated:
			code, kind = http.StatusUnauthorized, "not_authorized"
		case e.Class == broker.AccessRefused, e.Class == broker.NotAllowed:
			code, kind = http.StatusForbidden, "not_authorized"
		case e.Class == broker.NotFound:
			code, kind = http.StatusNotFound, "Object Not Found"
		case e.Class == broker.Unavailable, e.Class == broker.ResourceExhausted:
			code, kind = http.StatusServiceUnavailable, "unavailable"
		}
	}
	a.write(w, code, map[string]string{"error": kind, "reason": err.Error()})
}

func (a api) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		a.Logger.Debug("an answer could not be sent", "error", err)
	}
}

func (a api) whoami(w http.ResponseWriter, r *http.Request) {
	out := map[string]any{"name": "", "tags": []string{}}
	if who, err := a.Broker.Who(r.Context()); err == nil && who != nil {
		out["name"], out["tags"] = who.User(), who.Tags()
	}
	a.write(w, http.StatusOK, out)
}

func (a api) overview(w http.ResponseWriter, _ *http.Request) {
	a.write(w, http.StatusOK, map[string]any{
		"product_name": "Quorate", "product_version": a.Version, "node": a.Node,
		"object_totals": map[string]int{"connections": len(a.Connections.List())},
	})
}

// connection is a Connection as JSON.
type connection struct {
	Name             string            `json:"name"`
	User             string            `json:"user"`
	VHost            string            `json:"vhost"`
	Node             string            `json:"node"`
	Channels         int               `json:"channels"`
	PeerHost         string            `json:"peer_host"`
	PeerPort         uint16            `json:"peer_port"`
	ConnectedAt      int64             `json:"connected_at"`
	Protocol         string            `json:"protocol"`
	State            string            `json:"state"`
	ClientProperties map[string]string `json:"client_properties"`
	UserProvidedName string            `json:"user_provided_name,omitempty"`
}

func (a api) all() []connection {
	out := []connection{}
	for _, c := range a.Connections.List() {
		x := connection{
			Name: c.Name, User: c.User, VHost: c.VHost, Node: a.Node, Channels: c.Channels,
			PeerHost: c.Peer.Addr().Unmap().String(), PeerPort: c.Peer.Port(), ConnectedAt: c.SinceMs,
			Protocol: "AMQP 0-9-1", State: "running", ClientProperties: map[string]string{}, UserProvidedName: c.ClientName,
		}
		if c.Blocked {
			x.State = "blocked"
		}
		if c.ClientName != "" {
			x.ClientProperties["connection_name"] = c.ClientName
		}
		out = append(out, x)
	}
	return out
}

func (a api) list(w http.ResponseWriter, _ *http.Request) { a.write(w, http.StatusOK, a.all()) }

// name is the connection's of a request: it holds blanks and an arrow, escaped once or, by
// some clients, twice.
func name(r *http.Request) string {
	n := r.PathValue("name")
	if again, err := url.PathUnescape(n); err == nil {
		return again
	}
	return n
}

func (a api) missing(w http.ResponseWriter, r *http.Request) {
	a.fail(w, &broker.Error{
		Class: broker.NotFound, Kind: "connection", Name: name(r), Reason: "is not one of node " + a.Node + "; ask the node that it is to",
	})
}

func (a api) get(w http.ResponseWriter, r *http.Request) {
	for _, c := range a.all() {
		if c.Name == name(r) {
			a.write(w, http.StatusOK, c)
			return
		}
	}
	a.missing(w, r)
}

func (a api) close(w http.ResponseWriter, r *http.Request) {
	reason := r.Header.Get("X-Reason")
	if reason == "" {
		reason = "Closed via management API"
	}
	if !a.Connections.Close(name(r), reason) {
		a.missing(w, r)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
