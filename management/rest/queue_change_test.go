package rest_test

import "strings"

func queueRows() []row {
	return []row{
		{do: "PUT /api/queues/%2F/q", body: `{"durable":true,"arguments":{"x-max-length":5,"x-overflow":"reject-publish"}}`, code: 201},
		{do: "PUT /api/queues/%2F/q", body: `{"auto_delete":"false","arguments":{"x-max-length":5,"x-overflow":"reject-publish"}}`, code: 204},
		{do: "PUT /api/queues/%2F/q", body: `{"arguments":{"x-max-length":6}}`, code: 400, want: has("x-max-length")},
		{do: "PUT /api/queues/%2F/q2", body: `{"arguments":[]}`, code: 201},
		{do: "PUT /api/queues/%2F/q2", body: `{"arguments":["x"]}`, code: 400, want: has("want an object")},
		{do: "PUT /api/queues/%2F/q3", body: `{"durable":"x","auto_delete":1,"exclusive":true,"node":"n"}`, code: 400, want: has("durable = ", "auto_delete = 1", "exclusive = true", "over AMQP", "x-queue-leader-locator")},
		{do: "PUT /api/queues/%2F/q3", body: `{"exclusive":false}`, code: 201},
		{do: "PUT /api/queues/%2F/q4", body: `{"arguments":{"x-max-length":123456789012345678901}}`, code: 400, want: has("beyond 64 bits")},
		{do: "PUT /api/queues/%2F/q4", body: `{"arguments":{"x-queue-type":"stream"}}`, code: 400},
		{do: "PUT /api/queues/%2F/q4", body: `{"arguments":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`, code: 400, want: has("has more than 1048576 bytes")},
		{do: "PUT /api/queues/%2F/amq.q", code: 403},
		{do: "PUT /api/queues/nix/q", code: 404},
		{do: "PUT /api/queues/%2F/" + strings.Repeat("n", 255), code: 201},
		{do: "DELETE /api/queues/%2F/" + strings.Repeat("n", 255), code: 204},
		{do: "PUT /api/queues/%2F/" + strings.Repeat("n", 256), code: 400},
		{do: "PUT /api/queues/%2F/a%2F%22%E2%82%AC%2525", code: 201},
		{do: "GET /api/queues/%2F/a%2F%22%E2%82%AC%2525/bindings", code: 200, want: has(`"destination":"a/\"€%25"`)},
		{do: "DELETE /api/queues/%2F/a%2F%22%E2%82%AC%2525", code: 204},
		{who: "limited", do: "PUT /api/queues/%2F/mine", code: 201},
		{who: "limited", do: "PUT /api/queues/%2F/yours", code: 403},
		{who: "limited", do: "DELETE /api/queues/%2F/q2", code: 403},
		{who: "limited", do: "DELETE /api/queues/%2F/q2/contents", code: 403},
		{who: "limited", do: "DELETE /api/queues/%2F/mine/contents", code: 204},
		{who: "limited", do: "DELETE /api/queues/%2F/mine", code: 204},
		{who: "worker", do: "PUT /api/queues/%2F/q", code: 403},
		{who: "stranger", do: "PUT /api/queues/%2F/q", code: 403},
		{who: "nobody", do: "PUT /api/queues/%2F/q", code: 401},

		{do: "GET /api/queues/%2F/q/bindings", code: 200, want: has(
			`[{"arguments":{},"destination":"q","destination_type":"queue","properties_key":"q","routing_key":"q","source":"","vhost":"/"}]`,
		)},
		{do: "GET /api/queues/%2F/nix/bindings", code: 404},
		{who: "stranger", do: "GET /api/queues/%2F/q/bindings", code: 403},

		{do: "POST /api/queues/%2F/q/actions", body: `{"action":"sync"}`, code: 400, want: has("is for mirrored queues")},
		{do: "POST /api/queues/%2F/q/actions", body: `{"action":"jump"}`, code: 400, want: has("is not known")},
		{do: "POST /api/queues/%2F/q/actions", body: `{}`, code: 400, want: has("action: is missing")},
		{do: "POST /api/queues/%2F/nix/actions", body: `{"action":"sync"}`, code: 404},
		{who: "manager", do: "POST /api/queues/%2F/q/actions", body: `{"action":"sync"}`, code: 403},

		{do: "POST /api/exchanges/%2F/amq.default/publish", body: `{"routing_key":"q","payload":"x","properties":{}}`, code: 200, want: has(`{"routed":true}`)},
		{do: "DELETE /api/queues/%2F/q?if-empty=true", code: 400, want: has("holds 1 messages")},
		{do: "DELETE /api/queues/%2F/q/contents", code: 204},
		{do: "DELETE /api/queues/%2F/nix/contents", code: 404},
		{do: "DELETE /api/queues/%2F/q?if-empty=true&if-unused=true", code: 204},
		{do: "DELETE /api/queues/%2F/q", code: 404},
		{do: "DELETE /api/queues/nix/q", code: 404},
		{do: "DELETE /api/queues/%2F/q2", code: 204},
		{do: "DELETE /api/queues/%2F/q3", code: 204},
	}
}
