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
	for _, path := range makeList(t, "SINGLE") {
		for _, b := range goroutines(t, path) {
			t.Errorf("%s begins a goroutine: take %s out of SINGLE in the Makefile, so that its races are looked for", b.place, path)
		}
	}
}

// Where `make race` runs some tests of a package only, no others begin a goroutine.
func TestRaceRunsEachGoroutine(t *testing.T) {
	run := regexp.MustCompile(strings.Join(makeList(t, "PARTLY_RUN"), " "))
	for _, path := range makeList(t, "PARTLY") {
		found := goroutines(t, path)
		if len(found) == 0 {
			t.Errorf("%s begins no goroutine: PARTLY in the Makefile has it in vain, SINGLE would do", path)
		}
		for _, b := range found {
			if !strings.HasPrefix(b.function, "Test") || !run.MatchString(b.function) {
				t.Errorf("%s begins a goroutine in %s, which PARTLY_RUN in the Makefile does not match", b.place, b.function)
			}
		}
	}
}

// makeList returns the words of a variable of the Makefile.
func makeList(t *testing.T, name string) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` +:= ((?:.*\\\n)*.*)$`).FindStringSubmatch(readDocument(t, "Makefile"))
	if m == nil {
		t.Fatalf("the Makefile has no %s", name)
	}
	return strings.Fields(strings.ReplaceAll(m[1], "\\", ""))
}

// beginning is where a function begins a goroutine.
type beginning struct{ place, function string }

// goroutines returns where the files of a package begin one: by a go statement, or by a method Go, as those of
// sync.WaitGroup and errgroup.Group.
func goroutines(t *testing.T, path string) (found []beginning) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, path, "*.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("the Makefile names %s, where no files are: %v", path, err)
	}
	for _, file := range files {
		found = append(found, goroutinesOf(t, file)...)
	}
	return found
}

// goroutinesOf is goroutines of one file.
func goroutinesOf(t *testing.T, file string) (found []beginning) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	function := ""
	ast.Inspect(f, func(n ast.Node) bool {
		if d, is := n.(*ast.FuncDecl); is {
			function = d.Name.Name
		}
		call, is := n.(*ast.CallExpr)
		method, selects := (*ast.SelectorExpr)(nil), false
		if is {
			method, selects = call.Fun.(*ast.SelectorExpr)
		}
		if _, is := n.(*ast.GoStmt); is || selects && method.Sel.Name == "Go" {
			found = append(found, beginning{fset.Position(n.Pos()).String(), function})
		}
		return true
	})
	return found
}
