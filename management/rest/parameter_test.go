package rest_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/imports"
)

func parameterRows() []row {
	const shovel = "/api/parameters/shovel/%2F/s"
	return []row{
		{do: "PUT /api/global-parameters/about", body: `{"value":{"a":[1,"ä"]}}`, code: 201},
		{do: "PUT /api/global-parameters/about", body: `{"value":null}`, code: 204},
		{do: "PUT /api/global-parameters/about", body: `{"value":{"a":[1,"ä"]}}`, code: 204},
		{do: "GET /api/global-parameters", code: 200, want: has(`{"name":"about","value":{"a":[1,"ä"]}}`)},
		{do: "GET /api/global-parameters/about", code: 200, want: has(`"value":{"a":[1,"ä"]}`)},
		{do: "PUT /api/global-parameters/about", body: `{}`, code: 400, want: has("value: is missing")},
		{do: "PUT /api/global-parameters/about", body: `{"value":"` + strings.Repeat("x", 1<<16) + `"}`, code: 400, want: has("65538 bytes, the limit is 65536")},
		{do: "PUT /api/global-parameters/about", body: `{"value":"` + strings.Repeat("x", 1<<20) + `"}`, code: 400, want: has("has more than 1048576 bytes")},
		{do: "PUT /api/global-parameters/" + strings.Repeat("n", 256), body: `{"value":1}`, code: 400},
		{do: "PUT /api/global-parameters/" + strings.Repeat("n", 255), body: `{"value":1}`, code: 201},
		{do: "DELETE /api/global-parameters/" + strings.Repeat("n", 255), code: 204},
		{do: "GET /api/global-parameters/nix", code: 404},
		{do: "DELETE /api/global-parameters/nix", code: 404},
		{who: "policymaker", do: "GET /api/global-parameters", code: 200},
		{who: "policymaker", do: "PUT /api/global-parameters/about", body: `{"value":1}`, code: 403},
		{who: "policymaker", do: "DELETE /api/global-parameters/about", code: 403},
		{who: "manager", do: "GET /api/global-parameters", code: 403},
		{do: "DELETE /api/global-parameters/about", code: 204},
		{do: "GET /api/global-parameters", code: 200, want: has(`!about`, `!token`)},

		{do: "GET /api/parameters", code: 200, want: has(`[]`)},
		{do: "GET /api/parameters/shovel", code: 200, want: has(`[]`)},
		{do: "GET /api/parameters/shovel/%2F", code: 200, want: has(`[]`)},
		{do: "GET /api/parameters/shovel/nix", code: 404},
		{do: "GET " + shovel, code: 404},
		{do: "PUT " + shovel, body: `{"value":{}}`, code: 400, want: has("component = shovel: nothing here reads parameters of a component")},
		{do: "PUT /api/parameters/vhost-limits/%2F/limits", body: `{"value":{}}`, code: 400, want: has("put it to /api/vhost-limits")},
		{do: "DELETE " + shovel, code: 404},
		{who: "manager", do: "GET /api/parameters", code: 403},
		{who: "manager", do: "PUT " + shovel, body: `{"value":{}}`, code: 403},
		{who: "policymaker", do: "GET /api/parameters", code: 200},
		{who: "policymaker", do: "DELETE " + shovel, code: 403},
	}
}

// Parameters that were imported are shown and can be removed; those that the broker keeps for itself are neither.
func TestImportedParameters(t *testing.T) {
	a := start(t, 1)
	document := `{"parameters":[
		{"component":"shovel","vhost":"/","name":"s/1","value":{"src-uri":"amqp://"}},
		{"component":"other","vhost":"/","name":"o","value":7}
	]}`
	ctx := identity.WithIdentity(t.Context(), identity.Itself())
	if _, err := a.b.Definitions.Import(ctx, imports.Request{Document: []byte(document)}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.b.Logins.MintToken(identity.WithIdentity(t.Context(), a.identity("manager")), 0); err != nil {
		t.Fatal(err)
	}
	a.run([]row{
		{do: "GET /api/parameters", code: 200, want: has(`{"component":"shovel","name":"s/1","value":{"src-uri":"amqp://"},"vhost":"/"}`, `"name":"o"`)},
		{do: "GET /api/parameters/other", code: 200, want: has(`[{"component":"other","name":"o","value":7,"vhost":"/"}]`)},
		{do: "GET /api/parameters/shovel/%2F", code: 200, want: has(`s/1`, `!"o"`)},
		{do: "GET /api/parameters/shovel/%2F/s%2F1", code: 200, want: has(`"src-uri":"amqp://"`)},
		{do: "GET /api/parameters/other/%2F/s%2F1", code: 404},
		{who: "policymaker", do: "GET /api/parameters/shovel", code: 200, want: has(`s/1`)},
		{do: "DELETE /api/parameters/shovel/%2F/s%2F1", code: 204},
		{do: "DELETE /api/parameters/shovel/%2F/s%2F1", code: 404},
		{do: "GET /api/parameters", code: 200, want: has(`!shovel`)},
		{do: "GET /api/global-parameters", code: 200, want: has(`!token`)},
	})
}

// identity logs a user of addUsers in.
func (a api) identity(user string) *identity.Identity {
	a.t.Helper()
	who, err := a.b.Logins.Login(a.t.Context(), user, "p", netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		a.t.Fatal(err)
	}
	return who
}
