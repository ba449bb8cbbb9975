package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// limitName matches the name of a constant that bounds something.
var limitName = regexp.MustCompile(`^([dD]efault)?([mM]ax|[mM]ost|[lL]east|[kK]eep|[kK]ept)[A-Z]\w*$`)

// notOfMemory are constants that are named like bounds and let nothing gather: waits between
// tries, widths, the name of an argument, the shortest token of a file, by what priorities
// differ, and a text.
func notOfMemory(name string) bool {
	switch name {
	case "maxRetry", "maxRetryWait", "maxWait", "maxAskWait", "maxTimerWait", "maxFullBackoff", "DefaultMaxBackoff",
		"maxDeliveryID", "maxColumns", "MaxPriority", "leastToken", "MostExactPriorities", "keptOnDisk":
		return true
	}
	return false
}

// Every constant of the main module that is named as a bound is in docs/limits.md by that name,
// with or without its "default".
func TestEveryLimitIsListed(t *testing.T) {
	const file = "docs/limits.md"
	listed := map[string]bool{}
	for _, w := range regexp.MustCompile(`\w+`).FindAllString(readDocument(t, file), -1) {
		listed[strings.ToLower(w)] = true
	}
	found := 0
	walkGo(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") || notServed(path) {
			return
		}
		for _, name := range limitsOf(t, path) {
			found++
			if bare := strings.TrimPrefix(strings.ToLower(name), "default"); !listed[bare] && !listed["default"+bare] && !notOfMemory(name) {
				t.Errorf("%s: %s is not in %s: say what it bounds, its value, what happens there, and where its figure shows", path, name, file)
			}
		}
	})
	if found < 50 {
		t.Errorf("%d limits found", found)
	}
}

// notServed reports whether a file is no part of a node, its client or its tools.
func notServed(path string) bool {
	for _, dir := range []string{"bench/", "chaos/", "conformance/", "deploy/", "examples/", "internal/", "proto/", "tools/", "cmd/quickstart/"} {
		if strings.HasPrefix(path, dir) {
			return !strings.HasPrefix(path, "internal/password/") && !strings.HasPrefix(path, "internal/pattern/")
		}
	}
	return false
}

// limitsOf returns the names of a file's constants that bound something.
func limitsOf(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for _, n := range v.Names {
				if limitName.MatchString(n.Name) {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}
