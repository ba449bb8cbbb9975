package rest_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/management/rest"
)

// document is what tests look at of an OpenAPI document.
type document struct {
	OpenAPI    string                          `json:"openapi"`
	Info       struct{ Title, Version string } `json:"info"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components map[string]map[string]any       `json:"components"`
	Security   []map[string][]string           `json:"security"`
}

// operation is one method of one path.
type operation struct {
	OperationID string   `json:"operationId"`
	Summary     string   `json:"summary"`
	Tags        []string `json:"tags"`
	Parameters  []struct {
		Name, In    string
		Description string
		Required    bool
		Schema      map[string]any
	} `json:"parameters"`
	RequestBody *struct {
		Content map[string]struct{ Schema map[string]any }
	} `json:"requestBody"`
	Responses map[string]map[string]any `json:"responses"`
}

// The description is an OpenAPI 3.1 document with every route, each path and id once.
func TestDescription(t *testing.T) {
	a, _ := one(t)
	code, header, text := a.ask("manager", "GET /openapi.json", "")
	if code != http.StatusOK || header.Get("Content-Type") != "application/json" {
		t.Fatal(code, header)
	}
	var d document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	if d.OpenAPI != "3.1.0" || d.Info.Title == "" || d.Info.Version != "1.2.3" {
		t.Errorf("%s %+v", d.OpenAPI, d.Info)
	}
	for _, s := range d.Security {
		for name := range s {
			if d.Components["securitySchemes"][name] == nil {
				t.Errorf("there is no security scheme %s", name)
			}
		}
	}
	for _, ref := range regexp.MustCompile(`"\$ref":"#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(text, -1) {
		if d.Components[ref[1]][ref[2]] == nil {
			t.Errorf("%s leads nowhere", ref[0])
		}
	}
	described := 0
	for _, at := range d.Paths {
		described += len(at)
	}
	if all := rest.Routes(); described != len(all) {
		t.Errorf("%d operations are described, there are %d", described, len(all))
	}
	ids := map[string]bool{}
	for _, r := range rest.Routes() {
		o, is := d.Paths[r.Documented][strings.ToLower(r.Method)]
		if !is || o.Summary == "" || len(o.Tags) != 1 || ids[o.OperationID] {
			t.Errorf("%s %s: %+v", r.Method, r.Path, o)
		}
		ids[o.OperationID] = true
		o.check(t, r.Documented, r.Query)
	}
	shapes := map[string]string{}
	for path := range d.Paths { // as OpenAPI says: paths that differ in their placeholders' names alone are the same
		shape := placeholder.ReplaceAllString(path, "{}")
		if other, is := shapes[shape]; is {
			t.Errorf("%s and %s are the same", path, other)
		}
		shapes[shape] = path
	}
}

// check: an operation has each placeholder of its path as a parameter, then those of its query, and answers.
func (o *operation) check(t *testing.T, path string, query []string) {
	t.Helper()
	var want, got []string
	seen := map[string]bool{} // by place and name
	for _, m := range placeholder.FindAllString(path, -1) {
		want = append(want, strings.Trim(m, "{}"))
	}
	for i, p := range o.Parameters {
		right := p.In == "path" && p.Required && p.Schema["type"] == "string"
		if i >= len(want) {
			kind := p.Schema["type"]
			if items, is := p.Schema["items"].(map[string]any); is && kind == "array" {
				kind = items["type"]
			}
			right = p.In == "query" && !p.Required && p.Description != "" && (kind == "string" || kind == "integer" || kind == "boolean")
		}
		if !right || seen[p.In+" "+p.Name] {
			t.Errorf("%s: %+v", path, p)
		}
		seen[p.In+" "+p.Name] = true
		got = append(got, p.Name)
	}
	want = append(want, query...)
	if !slices.Equal(got, want) || strings.ContainsAny(path, "$.") && path != "/openapi.json" {
		t.Errorf("%s has the parameters %q", path, got)
	}
	if len(o.Responses) == 0 || o.Responses["default"] == nil {
		t.Errorf("%s has no answers", path)
	}
	if b := o.RequestBody; b != nil && b.Content["application/json"].Schema["type"] != "object" {
		t.Errorf("%s has the body %+v", path, b)
	}
}

// Each route whose description has the parameters of a list is one, and those that show a list have them.
func TestListsTakeTheirParameters(t *testing.T) {
	a, c := one(t)
	conn, err := amqp091.DialConfig("amqp://guest:guest@"+c.AMQP(0)+"/", amqp091.Config{Properties: amqp091.Table{"connection_name": "named"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // its node may be gone by then
	a.run([]row{
		{do: "PUT /api/queues/%2F/named", code: 201},
		{do: "PUT /api/exchanges/%2F/named", body: `{"type":"topic"}`, code: 201},
		{do: "PUT /api/topic-permissions/%2F/guest", body: `{"exchange":"named","write":"","read":""}`, code: 201},
	})
	path := strings.NewReplacer("{$}", "", "{vhost}", "%2F", "{user}", "guest", "{name}", "named", "{source}", "named", "{destination}", "named", "{component}", "shovel", "{node}", c.Name(0))
	lists := 0
	for _, r := range rest.Routes() {
		if !slices.Contains(r.Query, "page") {
			continue
		}
		lists++
		do := "GET " + path.Replace(r.Path)
		a.run([]row{{do: do + "?page=0", code: 400, want: has("page", "want 1 or more")}, {do: do + "?page=1&columns=nix&page_size=1", code: 200, want: has(`"page_size":1`)}})
	}
	if lists < 40 {
		t.Errorf("%d lists", lists)
	}
	for _, r := range rest.Routes() {
		if r.Method != http.MethodGet || slices.Contains(r.Query, "page") || strings.HasPrefix(r.Path, "/v1/") || strings.Contains(r.Path, "{props}") {
			continue
		}
		if _, _, text := a.ask("", "GET "+path.Replace(r.Path), ""); strings.HasPrefix(text, "[{") {
			t.Errorf("%s shows a list without its parameters: %.100s", r.Path, text)
		}
	}
}
