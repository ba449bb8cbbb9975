package rest

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/operators"
)

// warningsHeader has the warnings, separated by semicolons, about what was accepted but has no
// effect (C-9).
const warningsHeader = "Quorate-Warnings"

// silentHeader names the nodes, separated by commas, that did not answer; what only they know is
// missing from the reply.
const silentHeader = "Quorate-Silent"

// together are the nodes of all lists, each once.
func together(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// silentIn are the nodes that did not answer when all were asked.
func silentIn(s *operators.ClusterStatus) (silent []string) {
	for i := range s.Nodes {
		if !s.Nodes[i].Answers {
			silent = append(silent, s.Nodes[i].ID)
		}
	}
	return silent
}

// silentNodes asks all nodes, for answers to which those that are silent have not contributed. Whether some were is not
// worth an error.
func (c *call) silentNodes() []string {
	s, err := c.api.Broker.Operators.ClusterStatus(c.Context(), true)
	if err != nil {
		return nil
	}
	return silentIn(&s)
}

// object is a JSON object that is made up field by field.
type object map[string]any

// reply is what a route answers.
type reply struct {
	code     int      // 0: 200 with a body, 204 without
	body     any      // sent as JSON; nil: nothing
	silent   []string // nodes that did not answer
	sent     bool     // the route has sent its answer itself
	warnings []string // about what was accepted but has no effect
}

// orEmpty is a list, or a table, that is never null in JSON.
func orEmpty[S ~[]E, E any](all S) S {
	if all == nil {
		return S{}
	}
	return all
}

// created is the reply to a PUT: 201 for what is new, 204 for what is replaced.
func created(is bool) reply {
	if is {
		return reply{code: http.StatusCreated}
	}
	return reply{code: http.StatusNoContent}
}

// missing is the error about an object that is not there.
func missing(kind, vhost, name string) error {
	return &failure.Error{Class: failure.NotFound, Kind: kind, VHost: vhost, Name: name, Reason: "does not exist"}
}

// gone is the reply to a DELETE; what was not there is an error.
func gone(was bool, kind, vhost, name string) (reply, error) {
	if !was {
		return reply{}, missing(kind, vhost, name)
	}
	return reply{}, nil
}

// send writes a reply.
func (a *api) send(w http.ResponseWriter, r reply) {
	if r.sent {
		return
	}
	if len(r.silent) > 0 {
		w.Header().Set(silentHeader, strings.Join(r.silent, ","))
	}
	if len(r.warnings) > 0 {
		w.Header().Set(warningsHeader, strings.Join(r.warnings, "; "))
	}
	switch {
	case r.body != nil:
		a.write(w, max(r.code, http.StatusOK), r.body)
	case r.code != 0:
		w.WriteHeader(r.code)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// fail answers with an error in RabbitMQ's form.
func (a *api) fail(w http.ResponseWriter, err error) {
	code, body := faultOf(err)
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="Quorate"`)
	}
	a.write(w, code, body)
}

// faultOf gives an error the code and the form of RabbitMQ's errors.
func faultOf(err error) (code int, body map[string]string) {
	code, kind := http.StatusInternalServerError, "internal_error"
	if e, ok := errors.AsType[*failure.Error](err); ok {
		switch {
		case e.Unauthenticated:
			code, kind = http.StatusUnauthorized, "not_authorized"
		case e.Class == failure.AccessRefused, e.Class == failure.NotAllowed:
			code, kind = http.StatusForbidden, "not_authorized"
		case e.Class == failure.NotFound:
			code, kind = http.StatusNotFound, "Object Not Found"
		case e.Class == failure.PreconditionFailed, e.Class == failure.ResourceLocked, e.Class == failure.NotImplemented:
			code, kind = http.StatusBadRequest, "bad_request"
		case e.Class == failure.Unavailable, e.Class == failure.ResourceExhausted:
			code, kind = http.StatusServiceUnavailable, "unavailable"
		}
	}
	return code, map[string]string{"error": kind, "reason": err.Error()}
}

// write sends v as JSON. An error comes after the status is sent, so it only goes to the log.
func (a *api) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		a.Logger.Debug("an HTTP answer could not be sent", "error", err)
	}
}
