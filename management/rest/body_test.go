package rest_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/quorate/quorate/management/rest"
)

// A body may have MaxBodyBytes, and with one byte more nothing is done, whatever the request is.
func TestBodyLimit(t *testing.T) {
	a, _ := one(t)
	large := func(body string, bytes int) string { return body + strings.Repeat(" ", bytes-len(body)) }
	rows := []row{
		{do: "PUT /api/queues/%2F/edge", body: large(`{}`, rest.MaxBodyBytes), code: 201},
		{do: "PUT /api/users/edge", body: large(`{"tags":[]}`, rest.MaxBodyBytes), code: 201},
	}
	for do, body := range map[string]string{
		"PUT /api/queues/%2F/over":                      `{}`,
		"PUT /api/exchanges/%2F/over":                   `{"type":"topic"}`,
		"PUT /api/users/over":                           `{"tags":[]}`,
		"PUT /api/vhosts/over":                          `{}`,
		"PUT /api/policies/%2F/over":                    `{"pattern":"","definition":{"max-length":1}}`,
		"PUT /api/operator-policies/%2F/over":           `{"pattern":"","definition":{"max-length":1}}`,
		"PUT /api/permissions/%2F/edge":                 `{"configure":"","write":"","read":""}`,
		"PUT /api/topic-permissions/%2F/edge":           `{"exchange":"amq.topic","write":"","read":""}`,
		"PUT /api/vhost-limits/%2F/max-queues":          `{"value":1}`,
		"PUT /api/user-limits/edge/max-connections":     `{"value":1}`,
		"PUT /api/global-parameters/over":               `{"value":1}`,
		"PUT /v1/users/edge/tags":                       `{"tags":["management"]}`,
		"PUT /v1/users/edge/password":                   `{"password":"p"}`,
		"POST /api/bindings/%2F/e/amq.topic/q/edge":     `{"routing_key":"over"}`,
		"POST /api/queues/%2F/edge/get":                 `{"count":1}`,
		"POST /api/users/bulk-delete":                   `{"users":["edge"]}`,
		"POST /v1/queues/%2F/edge/messages/delete":      `{}`,
		"POST /v1/exchanges/%2F/amq.topic/explain":      `{"routing_keys":["a"]}`,
		"POST /v1/policies/%2F/over/preview":            `{"pattern":"","definition":{"max-length":1}}`,
		"POST /v1/queues/%2F/edge/messages/redrive":     `{}`,
		"POST /v1/queues/%2F/edge/dead-letters/explain": `{"routing_keys":["a"]}`,
	} {
		rows = append(rows, row{do: do, body: large(body, rest.MaxBodyBytes+1), code: 400, want: has("body", "has more than "+strconv.Itoa(rest.MaxBodyBytes)+" bytes")})
	}
	a.run(append(rows,
		row{do: "GET /api/queues/%2F?columns=name", code: 200, want: has(`[{"name":"edge"}]`)},
		row{do: "GET /api/users/edge", code: 200, want: has(`"tags":[]`)},
		row{do: "GET /api/permissions/%2F/edge", code: 404},
		row{do: "GET /api/policies", code: 200, want: has("[]")},
		row{do: "GET /api/bindings?name=over", code: 200, want: has("[]")},
	))
}
