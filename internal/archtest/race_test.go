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

// The packages that `make race` leaves out begin no goroutine, nor do their tests.
func TestRaceLeavesOutOneGoroutine(t *testing.T) {
	m := regexp.MustCompile(`(?m)^SINGLE +:= ((?:.*\\\n)*.*)$`).FindStringSubmatch(readDocument(t, "Makefile"))
	if m == nil {
		t.Fatal("the Makefile has no SINGLE")
	}
	for _, path := range strings.Fields(strings.ReplaceAll(m[1], "\\", "")) {
		files, err := filepath.Glob(filepath.Join(root, path, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("SINGLE has %s, where no files are: %v", path, err)
		}
		for _, file := range files {
			for _, place := range goroutines(t, file) {
				t.Errorf("%s begins a goroutine: take %s out of SINGLE in the Makefile, so that its races are looked for", place, path)
			}
		}
	}
}

// goroutines returns the places where a file begins one: by a go statement, or by a method Go, as those of sync.WaitGroup and
// errgroup.Group.
func goroutines(t *testing.T, file string) (places []string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		method, selects := (*ast.SelectorExpr)(nil), false
		if is {
			method, selects = call.Fun.(*ast.SelectorExpr)
		}
		if _, is := n.(*ast.GoStmt); is || selects && method.Sel.Name == "Go" {
			places = append(places, fset.Position(n.Pos()).String())
		}
		return true
	})
	return places
}
