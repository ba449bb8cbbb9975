package rest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/quorate/quorate/broker/failure"
)

// silentHeader names the nodes, separated by commas, that did not answer; what only they know is
// missing from the reply.
const silentHeader = "Quorate-Silent"

// object is a JSON object that is made up field by field.
type object map[string]any

// reply is what a route answers.
type reply struct {
	code   int      // 0: 200 with a body, 204 without
	body   any      // sent as JSON; nil: nothing
	silent []string // nodes that did not answer
}

// created is the reply to a PUT: 201 for what is new, 204 for what is replaced.
func created(is bool) reply {
	if is {
		return reply{code: http.StatusCreated}
	}
	return reply{code: http.StatusNoContent}
}

// send writes a reply.
func (a *api) send(w http.ResponseWriter, r reply) {
	if len(r.silent) > 0 {
		w.Header().Set(silentHeader, strings.Join(r.silent, ","))
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
	code, kind := http.StatusInternalServerError, "internal_error"
	if e, ok := errors.AsType[*failure.Error](err); ok {
		switch {
		case e.Unauthenticated:
			code, kind = http.StatusUnauthorized, "not_authorized"
			w.Header().Set("WWW-Authenticate", `Basic realm="Quorate"`)
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
func (a *api) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		a.Logger.Debug("an HTTP answer could not be sent", "error", err)
	}
}
