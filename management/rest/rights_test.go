package rest_test

// rightsRows ask what callers may do to what is there and to what is not.
func rightsRows() []row {
	const all, none = `{"configure":true,"read":true,"write":true}`, `{"configure":false,"read":false,"write":false}`
	return []row{
		{do: "PUT /api/vhosts/closed", code: 201},
		{do: "DELETE /api/permissions/closed/guest", code: 204},
		{do: "PUT /api/vhosts/readers", code: 201},
		{do: "PUT /api/permissions/readers/limited", body: `{"configure":"","write":"","read":"^a"}`, code: 201},
		{do: "GET /v1/queues/%2F/any/rights", code: 200, want: has(all)},
		{do: "GET /v1/exchanges/%2F/amq.default/rights", code: 200, want: has(all)},
		{do: "GET /v1/queues/closed/any/rights", code: 403},
		{do: "GET /v1/queues/nix/any/rights", code: 404},
		{who: "limited", do: "GET /v1/queues/%2F/mine.too/rights", code: 200, want: has(all)},
		{who: "limited", do: "GET /v1/queues/%2F/yours/rights", code: 200, want: has(none)},
		{who: "limited", do: "GET /v1/exchanges/%2F/amq.default/rights", code: 200, want: has(none)},
		{who: "limited", do: "GET /v1/queues/readers/a/rights", code: 200, want: has(`{"configure":false,"read":true,"write":false}`)},
		{who: "limited", do: "GET /v1/rights", code: 200, want: has(
			`[{"configure":true,"read":true,"vhost":"/","write":true},{"configure":false,"read":true,"vhost":"readers","write":false}]`,
		)},
		{do: "GET /v1/rights", code: 200, want: has(`"vhost":"/"`, `!"vhost":"closed"`)},
		{who: "stranger", do: "GET /v1/rights", code: 200, want: has("[]")},
		{who: "stranger", do: "GET /v1/queues/%2F/any/rights", code: 403},
		{who: "stranger", do: "GET /v1/exchanges/%2F/any/rights", code: 403},
		{who: "worker", do: "GET /v1/rights", code: 403},
		{who: "worker", do: "GET /v1/queues/%2F/any/rights", code: 403},
		{who: "nobody", do: "GET /v1/rights", code: 401},
		{who: "nobody", do: "GET /v1/queues/%2F/any/rights", code: 401},
		{do: "DELETE /api/vhosts/closed", code: 204},
		{do: "DELETE /api/vhosts/readers", code: 204},
	}
}
