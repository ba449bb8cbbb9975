package rest_test

import "strings"

func policyRows() []row {
	const one = "/api/policies/%2F/p%2F1"
	return []row{
		{do: "PUT " + one, body: `{"pattern":"^q","definition":{"max-length":5},"priority":"2","apply-to":"queues"}`, code: 201},
		{do: "PUT " + one, body: `{"pattern":"^q","definition":{"max-length":6},"priority":3}`, code: 204},
		{do: "GET " + one, code: 200, want: has(`{"apply-to":"all","definition":{"max-length":6},"name":"p/1","pattern":"^q","priority":3,"vhost":"/"}`)},
		{do: "GET /api/policies?columns=name", code: 200, want: has(`[{"name":"p/1"}]`)},
		{do: "GET /api/policies/%2F?columns=name", code: 200, want: has(`[{"name":"p/1"}]`)},
		{do: "GET /api/operator-policies/%2F", code: 200, want: has(`[]`)},
		{do: "PUT " + one, body: `{"definition":{"max-length":5}}`, code: 400, want: has("pattern: is missing")},
		{do: "PUT " + one, body: `{"pattern":"x"}`, code: 400, want: has("definition: is missing")},
		{do: "PUT " + one, body: `{"pattern":"(","definition":{"max-length":"x"}}`, code: 400, want: has("pattern", "max-length")},
		{do: "PUT " + one, body: `{"pattern":1,"definition":2,"priority":"x","apply-to":4}`, code: 400, want: has("pattern = 1", "definition = 2", `priority = `, "apply-to = 4")},
		{do: "PUT " + one, body: `{"pattern":"x","definition":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`, code: 400, want: has("has more than 1048576 bytes")},
		{do: "PUT /api/policies/nix/p", body: `{"pattern":"","definition":{"max-length":5}}`, code: 404},
		{do: "PUT /api/policies/%2F/" + strings.Repeat("n", 256), body: `{"pattern":"","definition":{"max-length":5}}`, code: 400},
		{do: "PUT /api/policies/%2F/" + strings.Repeat("n", 255), body: `{"pattern":"","definition":{"max-length":5}}`, code: 201},
		{do: "DELETE /api/policies/%2F/" + strings.Repeat("n", 255), code: 204},
		{do: "GET /api/policies/%2F/nix", code: 404},
		{do: "GET /api/policies/nix", code: 404},
		{do: "DELETE /api/policies/%2F/nix", code: 404},
		{who: "policymaker", do: "PUT /api/policies/%2F/theirs", body: `{"pattern":"^%22€","definition":{"max-length":5}}`, code: 201},
		{who: "policymaker", do: "DELETE /api/policies/%2F/theirs", code: 204},
		{who: "policymaker", do: "PUT /api/operator-policies/%2F/o", body: `{"pattern":"","definition":{"max-length":5}}`, code: 403},
		{who: "policymaker", do: "DELETE /api/operator-policies/%2F/o", code: 403},
		{who: "manager", do: "PUT " + one, body: `{"pattern":"","definition":{"max-length":5}}`, code: 403},
		{who: "manager", do: "DELETE " + one, code: 403},
		{who: "manager", do: "GET /api/policies", code: 200, want: has(`"name":"p/1"`)},
		{who: "stranger", do: "GET /api/policies/%2F", code: 403},
		{who: "worker", do: "GET /api/policies", code: 403},
		{who: "nobody", do: "GET /api/policies", code: 401},
		{do: "DELETE " + one, code: 204},

		{do: "PUT /api/operator-policies/%2F/o", body: `{"pattern":"","definition":{"max-length":5}}`, code: 201},
		{do: "PUT /api/operator-policies/%2F/o", body: `{"pattern":"","definition":{"max-length":7}}`, code: 204},
		{do: "GET /api/operator-policies/%2F/o", code: 200, want: has(`"max-length":7`)},
		{do: "GET /api/operator-policies", code: 200, want: has(`"name":"o"`)},
		{do: "GET /api/policies/%2F/o", code: 404},
		{do: "DELETE /api/operator-policies/%2F/o", code: 204},
		{do: "DELETE /api/operator-policies/%2F/o", code: 404},
	}
}
