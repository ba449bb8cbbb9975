package rest

import (
	"regexp"
	"strings"
)

// descriptionRoutes describe the API itself.
func descriptionRoutes() []route {
	return []route{
		{method: "GET", path: "/openapi.json", tag: management, always: true, serve: describe, says: "this API as an OpenAPI 3.1 document"},
	}
}

// placeholder is a part of a path that stands for a value.
var placeholder = regexp.MustCompile(`\{([^}.]+)(\.\.\.)?\}`)

// describe makes an OpenAPI document from the table of routes.
func describe(c *call) (reply, error) {
	paths := object{}
	for _, r := range routes() {
		path := r.documentedPath()
		at, is := paths[path].(object)
		if !is {
			at = object{}
			paths[path] = at
		}
		at[strings.ToLower(r.method)] = r.describe()
	}
	fault := object{"type": "object", "required": []string{"error", "reason"}, "properties": object{
		"error": object{"type": "string", "description": "the kind of error"}, "reason": object{"type": "string", "description": "what is wrong, and the remedy"},
	}}
	return reply{body: object{
		"openapi": "3.1.0",
		"info": object{"title": "Quorate", "version": c.api.Version, "description": "The paths under /api/ are those of RabbitMQ's HTTP API. " +
			"Parts of a path are percent-encoded: the vhost / is %2F."},
		"paths":    paths,
		"security": []object{{"basic": []string{}}, {"bearer": []string{}}},
		"components": object{
			"securitySchemes": object{"basic": object{"type": "http", "scheme": "basic"}, "bearer": object{"type": "http", "scheme": "bearer"}},
			"schemas":         object{"error": fault},
			"responses": object{"error": object{
				"description": "what is wrong", "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/error"}}},
			}},
		},
	}}, nil
}

// documentedPath is the path without what only http.ServeMux understands.
func (r *route) documentedPath() string {
	return placeholder.ReplaceAllString(strings.TrimSuffix(r.path, "{$}"), "{$1}")
}

// describe makes an OpenAPI operation from a route.
func (r *route) describe() object {
	path := r.documentedPath()
	parameters := []object{}
	for _, m := range placeholder.FindAllStringSubmatch(path, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for i := range r.query {
		parameters = append(parameters, r.query[i].describe())
	}
	needs := "a login"
	if r.tag != "" {
		needs = "the tag " + r.tag
	}
	out := object{
		"operationId": operationID(r.method, path), "summary": r.says, "description": "Needs " + needs + ".", "tags": []string{groupOf(path)},
		"parameters": parameters, "responses": object{
			"2XX": object{"description": "done"}, "default": object{"$ref": "#/components/responses/error"},
		},
	}
	if r.method == "POST" || r.method == "PUT" {
		out["requestBody"] = object{"content": object{"application/json": object{"schema": object{"type": "object"}}}}
	}
	return out
}

// groupOf is what a path is about: its part after the version.
func groupOf(path string) string {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if part != "api" && part != "v1" {
			return part
		}
	}
	return path
}

// operationID makes a name from a method and a path, one for each.
func operationID(method, path string) string {
	return strings.ToLower(method) + strings.NewReplacer("/", "_", "{", "", "}", "", ".", "_").Replace(path)
}
