package quorumq

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFilesStandInOrder compares the files with the reading order of the package comment: each file
// is in it, and uses nothing that is declared in a file below it. So parts stay separate, and the
// package can be read from one end to the other.
func TestFilesStandInOrder(t *testing.T) {
	fset := token.NewFileSet()
	var files []*ast.File
	place := readingOrder(t)
	found := 0
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		found++
		if place[path] == 0 {
			t.Errorf("%s is not in the reading order of the package comment", path)
		}
		if path == "invariants_on.go" {
			continue // declares what invariants_off.go does
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if found != len(place) {
		t.Errorf("%d files, the reading order names %d", found, len(place))
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := conf.Check("quorumq", fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	for use, object := range info.Uses {
		if object.Pkg() != pkg {
			continue
		}
		from, to := fset.Position(use.Pos()), fset.Position(object.Pos())
		if place[from.Filename] < place[to.Filename] {
			t.Errorf("%v uses %s, which is declared below, in %s", from, object.Name(), to.Filename)
		}
	}
}

// readingOrder returns the places, from 1, of the files that the package comment names.
func readingOrder(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("quorumq.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(text), "// # Reading order")
	list, _, end := strings.Cut(list, "package quorumq")
	if !ok || !end {
		t.Fatal("the package comment has no reading order")
	}
	place := make(map[string]int)
	for _, name := range regexp.MustCompile(`\b[a-z_]+\.go\b`).FindAllString(list, -1) {
		place[name] = len(place) + 1
	}
	return place
}
