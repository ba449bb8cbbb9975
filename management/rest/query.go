package rest

import (
	"slices"
	"strconv"
	"strings"
)

// parameter is a parameter of a route's query. A route takes only those that it declares: what the description of the API
// has is what requests can use.
type parameter struct {
	name, kind string // kind is a type of JSON Schema
	says       string
	many       bool // it may be there several times
}

// textParam is a parameter of any text.
func textParam(name, says string) parameter { return parameter{name: name, kind: "string", says: says} }

// countParam is a number that is not negative.
func countParam(name, says string) parameter {
	return parameter{name: name, kind: "integer", says: says}
}

// flagParam is set if it is there, unless it is false.
func flagParam(name, says string) parameter {
	return parameter{name: name, kind: "boolean", says: says}
}

// repeated is a parameter that may be there several times.
func repeated(p parameter) parameter {
	p.many = true
	return p
}

// oneQuery are the parameters of a path that shows one object, and more.
func oneQuery(more ...parameter) []parameter { return append([]parameter{columnsParam()}, more...) }

// columnsParam chooses fields.
func columnsParam() parameter {
	return textParam("columns", "the fields to show, with commas between; dots lead into objects")
}

// listQuery are the parameters of a list, and more.
func listQuery(more ...parameter) []parameter {
	return slices.Concat([]parameter{
		countParam("page", "the page to show, from 1; without it the whole list is shown, not as a page"),
		countParam("page_size", "how many rows a page has, at most 500; 100 if it is left out"),
		textParam("name", "shows rows whose name contains this text"),
		flagParam("use_regex", "true: name is a regular expression"),
		textParam("sort", "the field to sort by; dots lead into objects"),
		flagParam("sort_reverse", "true: the last row comes first"),
		columnsParam(),
	}, more)
}

// withoutFigures is the parameter that leaves figures out.
func withoutFigures() parameter { return flagParam("disable_stats", "leaves the figures out") }

// figures reports whether the caller wants figures.
func (c *call) figures() bool { return !c.flag("disable_stats") }

// columns are the fields to show; nil: all.
func (c *call) columns() []string {
	if names := c.text("columns"); names != "" {
		return strings.Split(names, ",")
	}
	return nil
}

// dryRunQuery has the parameter of changes that can be tried.
func dryRunQuery() []parameter {
	return []parameter{flagParam("dry_run", "shows what would be done, and does nothing")}
}

// describe shows a parameter in an OpenAPI operation.
func (p *parameter) describe() object {
	schema := object{"type": p.kind}
	if p.many {
		schema = object{"type": "array", "items": schema}
	}
	return object{"name": p.name, "in": "query", "required": false, "description": p.says, "schema": schema}
}

// all returns the values of a parameter that the route declares.
func (c *call) all(name string) []string {
	if !slices.ContainsFunc(c.route.query, func(p parameter) bool { return p.name == name }) {
		return nil
	}
	return c.URL.Query()[name]
}

// given reports whether a parameter is there.
func (c *call) given(name string) bool { return len(c.all(name)) > 0 }

// text is the value of a parameter; "" if it is not there.
func (c *call) text(name string) string {
	if all := c.all(name); len(all) > 0 {
		return all[0]
	}
	return ""
}

// flag reports whether a parameter is there and not false.
func (c *call) flag(name string) bool { return c.given(name) && c.text(name) != "false" }

// count is a parameter of the query, 0 to most; 0 if it is not there.
func (c *call) count(name string, most uint64) (uint64, error) {
	text := c.text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > most {
		return 0, bad(name, text, "want 0 to "+strconv.FormatUint(most, 10))
	}
	return n, nil
}
