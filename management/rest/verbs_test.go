package rest_test

import (
	"fmt"
	"strings"
)

// escaped is a name in the paths of rabbitmqadmin 2, which escapes all but letters and digits.
func escaped(name string) string {
	var out strings.Builder
	for _, b := range []byte(name) {
		if b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}

// verbs are the requests that the verbs of rabbitmqadmin 2 send, one after another, with the bodies that it makes.
func verbs() []row {
	root, q, x, v, u, p := escaped("/"), escaped("v2.q"), escaped("v2.x"), escaped("v2/v"), escaped("v2-u"), escaped("v2_p")
	const policy = `"pattern":"^v2","priority":3,"definition":{"max-length":7}}`
	rows := []row{
		{do: "PUT /api/vhosts/" + v, body: `{"name":"v2/v","description":"d","tags":["t"],"default_queue_type":"quorum","tracing":false}`, code: 201},
		{do: "PUT /api/vhosts/" + v, body: `{"name":"v2/v","tracing":false}`, code: 204},
		{do: "POST /api/vhosts/" + v + "/deletion/protection", code: 204},
		{do: "DELETE /api/vhosts/" + v, code: 400},
		{do: "DELETE /api/vhosts/" + v + "/deletion/protection", code: 204},
		{do: "DELETE /api/vhosts/" + v, code: 204},
		{do: "DELETE /api/vhosts/" + v, code: 404},

		{do: "PUT /api/queues/" + root + "/" + q, body: `{"name":"v2.q","durable":true,"auto_delete":false,"exclusive":false,"arguments":{"x-queue-type":"quorum"}}`, code: 201},
		{do: "PUT /api/exchanges/" + root + "/" + x, body: `{"type":"topic","durable":true,"auto_delete":false}`, code: 201},
		{do: "POST /api/bindings/" + root + "/e/" + x + "/q/" + q, body: `{"routing_key":"a.#"}`, code: 201},
		{do: "POST /api/bindings/" + root + "/e/" + x + "/q/" + q, body: `{"routing_key":"","arguments":{"x":1}}`, code: 201},
		{do: "POST /api/bindings/" + root + "/e/" + x + "/e/" + escaped("amq.fanout"), body: `{"routing_key":"b"}`, code: 201},
		{do: "GET /api/queues/" + root + "/" + q + "/bindings", code: 200, want: has(`"properties_key":"a.%23"`, `"properties_key":"v2.q"`)},
		{do: "DELETE /api/bindings/" + root + "/e/" + x + "/q/" + q + "/" + escaped("a.%23"), code: 204},
		{do: "DELETE /api/bindings/" + root + "/e/" + x + "/q/" + q + "/" + escaped("a.%23"), code: 404},
		{do: "DELETE /api/bindings/" + root + "/e/" + x + "/e/" + escaped("amq.fanout") + "/b", code: 204},
		{do: "POST /api/exchanges/" + root + "//publish", body: `{"routing_key":"v2.q","payload":"test","payload_encoding":"string","properties":{}}`, code: 200, want: has(`{"routed":true}`)},
		{do: "POST /api/exchanges/" + root + "/" + x + "/publish", body: `{"routing_key":"nix","payload":"ä","payload_encoding":"string","properties":{"priority":5,"headers":{"h":1}}}`, code: 200, want: has(`{"routed":false}`)},
		{do: "POST /api/queues/" + root + "/" + q + "/get", body: `{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}`, code: 200, want: has(`"payload":"test"`)},
		{do: "DELETE /api/queues/" + root + "/" + q + "/contents", code: 204},
		{do: "DELETE /api/queues/" + root + "/" + q, code: 204},
		{do: "DELETE /api/queues/" + root + "/" + q, code: 404},
		{do: "DELETE /api/exchanges/" + root + "/" + x, code: 204},

		{do: "PUT /api/users/" + u, body: `{"name":"v2-u","password_hash":"` + rabbitHash("p") + `","tags":"monitoring,management"}`, code: 201},
		{do: "PUT /api/permissions/" + root + "/" + u, body: `{"user":"v2-u","vhost":"/","configure":".*","read":".*","write":".*"}`, code: 201},
		{who: "v2-u", do: "GET /api/whoami", code: 200, want: has(`"tags":["monitoring","management"]`)},
		{do: "PUT /api/user-limits/" + u + "/" + escaped("max-channels"), body: `{"value":9}`, code: 204},
		{do: "DELETE /api/user-limits/" + u + "/" + escaped("max-channels"), code: 204},
		{do: "PUT /api/vhost-limits/" + root + "/" + escaped("max-queues"), body: `{"value":900}`, code: 204},
		{do: "DELETE /api/vhost-limits/" + root + "/" + escaped("max-queues"), code: 204},
		{do: "DELETE /api/permissions/" + root + "/" + u, code: 204},
		{do: "POST /api/users/bulk-delete", body: `{"users":["v2-u"]}`, code: 204},

		{do: "PUT /api/global-parameters/" + p, body: `{"name":"v2_p","value":{"a":1}}`, code: 201},
		{do: "DELETE /api/global-parameters/" + p, code: 204},
		{do: "PUT /api/feature-flags/" + escaped("stored_state_v1") + "/enable", body: `{"name":"stored_state_v1"}`, code: 204},
		{do: "POST /api/rebalance/queues", body: `{}`, code: 202},
	}
	for _, to := range []string{"queues", "classic_queues", "quorum_queues", "all"} {
		for _, kind := range []string{"policies", "operator-policies"} {
			at := "/api/" + kind + "/" + root + "/" + p
			rows = append(rows,
				row{do: "PUT " + at, body: `{"vhost":"/","name":"v2_p","apply-to":"` + to + `",` + policy, code: 201},
				row{do: "GET " + at, code: 200, want: has(`"apply-to":"`+to+`"`, `"priority":3`)},
				row{do: "DELETE " + at, code: 204},
			)
		}
	}
	return rows
}
