package main

import (
	"bytes"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// Every patch applies to the tree and changes Go code that is no test, and all that its header names is
// there. Whether a mutant builds, and what finds it, is for make mutants.
func TestPatches(t *testing.T) {
	from, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := readMutants(from)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 25 {
		t.Errorf("there are %d mutants, want 25 at least", len(all))
	}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := m.plant(t.Context(), from, dir); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(m.files, func(name string) bool {
				return code(t, filepath.Join(from, name)) != code(t, filepath.Join(dir, name))
			}) {
				t.Errorf("it changes no code in %v", m.files)
			}
			for _, p := range m.how[unit].args {
				path, _, _ := strings.Cut(p, ":")
				exists(t, path)
			}
			for _, plan := range m.how[chaos].args {
				exists(t, strings.TrimPrefix(planFile("", plan), "/"))
			}
			if args := m.how[sim].args; len(args) > 0 {
				exists(t, args[0])
			}
		})
	}
}

// exists fails unless the tree has a file or directory.
func exists(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, name)); err != nil {
		t.Error(err)
	}
}

// code returns a file of Go without its comments.
func code(t *testing.T, name string) string {
	t.Helper()
	if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
		t.Fatalf("%s is no Go code of the product", name)
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := printer.Fprint(&b, files, f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The document has a row for every mutant, and none for another.
func TestDocument(t *testing.T) {
	all, err := readMutants(root)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := readTable(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if rows[m.name] == nil {
			t.Errorf("%s has no row for %s: make mutants ARGS='-write -only %s'", document, m.name, m.name)
		}
		delete(rows, m.name)
	}
	for name := range rows {
		t.Errorf("%s has a row for %q, which there is not", document, name)
	}
}
