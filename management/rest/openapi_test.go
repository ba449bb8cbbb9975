package rest_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

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
		Name, In string
		Required bool
		Schema   map[string]any
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
		o.check(t, r.Documented)
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

// check: an operation has each placeholder of its path as a parameter, and answers.
func (o *operation) check(t *testing.T, path string) {
	t.Helper()
	var want, got []string
	for _, m := range placeholder.FindAllString(path, -1) {
		want = append(want, strings.Trim(m, "{}"))
	}
	for _, p := range o.Parameters {
		if p.In != "path" || !p.Required || p.Schema["type"] != "string" {
			t.Errorf("%s: %+v", path, p)
		}
		got = append(got, p.Name)
	}
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
