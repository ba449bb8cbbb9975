package rest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func bindingRows() []row {
	const ends = "/api/bindings/%2F/e/bx/q/bq"
	return []row{
		{do: "PUT /api/exchanges/%2F/bx", body: `{"type":"topic"}`, code: 201},
		{do: "PUT /api/queues/%2F/bq", code: 201},
		{do: "POST " + ends, body: `{"routing_key":"a~b c/d"}`, code: 201},
		{do: "POST " + ends, code: 201},
		{do: "GET " + ends, code: 200, want: has(`"properties_key":"a%7Eb%20c%2Fd"`, `"properties_key":"~"`, `"routing_key":"a~b c/d"`)},
		{do: "GET " + ends + "/a%257Eb%2520c%252Fd", code: 200, want: has(`"routing_key":"a~b c/d"`)},
		{do: "POST " + ends, body: `{"routing_key":"#.é/*+"}`, code: 201},
		{do: "GET " + ends + "/%23.%C3%A9%2F%2A+", code: 200, want: has(`"properties_key":"%23.%C3%A9%2F%2A+"`)},
		{do: "GET " + ends + "/%2523.%25C3%25A9%252F%252A+", code: 200, want: has(`"routing_key":"#.é/*+"`)},
		{do: "DELETE " + ends + "/%23.%C3%A9%2F%2A+", code: 204},
		{do: "GET " + ends + "/~", code: 200, want: has(`"routing_key":""`)},
		{do: "GET /api/bindings", code: 200, want: has(`"source":"bx"`, `"source":""`)},
		{do: "GET /api/bindings/%2F?name=bx&columns=destination", code: 200, want: has(`[{"destination":"bq"},{"destination":"bq"}]`)},
		{do: "GET /api/bindings/%2F/e/amq.default/q/bq", code: 200, want: has(`"properties_key":"bq"`, `"source":""`)},
		{do: "GET /api/bindings/%2F/e/amq.default/q/bq/bq", code: 200, want: has(`"routing_key":"bq"`)},
		{do: "POST /api/bindings/%2F/e/amq.default/q/bq", body: `{"routing_key":"bq"}`, code: 403},
		{do: "DELETE /api/bindings/%2F/e/amq.default/q/bq/bq", code: 403},
		{do: "POST /api/bindings/%2F/e/bx/e/amq.fanout", body: `{"routing_key":"e"}`, code: 201},
		{do: "GET /api/bindings/%2F/e/bx/e/amq.fanout/e", code: 200, want: has(`"destination_type":"exchange"`)},
		{do: "DELETE /api/bindings/%2F/e/bx/e/amq.fanout/e", code: 204},
		{do: "GET /api/bindings/%2F/e/bx/e/amq.fanout", code: 200, want: has(`[]`)},

		{do: "POST " + ends, body: `{"routing_key":1,"arguments":2}`, code: 400, want: has("routing_key = 1", "arguments = 2")},
		{do: "POST " + ends, body: `{"routing_key":"` + strings.Repeat("k", 256) + `"}`, code: 400, want: has("256 bytes")},
		{do: "POST " + ends, body: `{"routing_key":"` + strings.Repeat("k", 255) + `"}`, code: 201},
		{do: "DELETE " + ends + "/" + strings.Repeat("k", 255), code: 204},
		{do: "POST " + ends, body: `{"arguments":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`, code: 400, want: has("has more than 1048576 bytes")},
		{do: "POST /api/bindings/%2F/e/nix/q/bq", code: 404},
		{do: "POST /api/bindings/%2F/e/bx/q/nix", code: 404},
		{do: "POST /api/bindings/nix/e/bx/q/bq", code: 404},
		{do: "GET /api/bindings/nix", code: 404},
		{do: "GET /api/bindings/%2F/e/nix/q/bq", code: 404},
		{do: "GET /api/bindings/%2F/e/bx/q/nix", code: 404},
		{do: "GET " + ends + "/nix", code: 404, want: has("bx → bq (nix)")},
		{do: "DELETE " + ends + "/nix", code: 404},
		{who: "limited", do: "POST " + ends, code: 403},
		{who: "limited", do: "DELETE " + ends + "/~", code: 403},
		{who: "stranger", do: "GET " + ends, code: 403},
		{who: "stranger", do: "GET /api/bindings/%2F", code: 403},
		{who: "stranger", do: "GET /api/bindings", code: 200, want: has(`[]`)},
		{who: "manager", do: "GET /api/bindings?name=bx", code: 200, want: has(`"source":"bx"`)},
		{who: "worker", do: "POST " + ends, code: 403},
		{who: "nobody", do: "GET /api/bindings", code: 401},

		{do: "DELETE " + ends + "/a%257Eb%2520c%252Fd", code: 204},
		{do: "DELETE " + ends + "/~", code: 204},
		{do: "DELETE " + ends + "/~", code: 404},
		{do: "DELETE /api/queues/%2F/bq", code: 204},
		{do: "DELETE /api/exchanges/%2F/bx", code: 204},
	}
}

// The Location of a new binding is relative to its path, and arguments distinguish bindings with the same key.
func TestBindingLocation(t *testing.T) {
	a := start(t, 1)
	a.run([]row{
		{do: "PUT /api/exchanges/%2F/h%2F", body: `{"type":"headers"}`, code: 201},
		{do: "PUT /api/queues/%2F/q%25", code: 201},
	})
	paths := map[string]string{}
	for _, body := range []string{`{}`, `{"arguments":{"x-match":"all","a":1}}`, `{"arguments":{"x-match":"any","a":1}}`, `{"routing_key":"k/~%","arguments":{"a":"b"}}`} {
		code, header, text := a.ask("", "POST /api/bindings/%2F/e/h%2F/q/q%25", body)
		if code != http.StatusCreated {
			t.Fatal(code, text)
		}
		place := header.Get("Location")
		if strings.Count(place, "/") != 1 || !strings.HasPrefix(place, "q%25/") {
			t.Error(place)
		}
		paths["/api/bindings/%2F/e/h%2F/q/"+place] = body
	}
	if len(paths) != 4 {
		t.Fatal(paths)
	}
	for path, body := range paths {
		code, _, text := a.ask("", "GET "+path, "")
		var got, want map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil || code != http.StatusOK {
			t.Fatal(path, code, text, err)
		}
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatal(err)
		}
		for name, v := range want {
			x, err1 := json.Marshal(got[name])
			y, err2 := json.Marshal(v)
			if string(x) != string(y) || err1 != nil || err2 != nil {
				t.Errorf("%s: %s is %s, want %s", path, name, x, y)
			}
		}
		if code, _, text := a.ask("", "DELETE "+path, ""); code != http.StatusNoContent {
			t.Error(path, code, text)
		}
	}
	a.run([]row{{do: "GET /api/bindings/%2F/e/h%2F/q/q%25", code: 200, want: has(`[]`)}})
}
