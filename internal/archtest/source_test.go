package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/quorate/quorate"

// root is the module's directory as seen from the directory of this package, which
// is where the go command runs its tests.
const root = "../.."

// source is one parsed package, without its tests.
type source struct {
	path  string // relative to the module, with slashes
	fset  *token.FileSet
	files []*ast.File
}

// load parses every package of the module. Directories that are modules of their
// own, testdata and hidden ones are left out, as the go command does.
func load(t *testing.T) []*source {
	t.Helper()
	byPath := map[string]*source{}
	var all []*source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(p, d.Name())
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(p))
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		s := byPath[rel]
		if s == nil {
			s = &source{path: rel, fset: token.NewFileSet()}
			byPath[rel] = s
			all = append(all, s)
		}
		f, err := parser.ParseFile(s.fset, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
		return nil
	})
	if err != nil {
		t.Fatalf("read the module's source: %v", err)
	}
	if len(all) == 0 {
		t.Fatal("no Go package found: is the test run in its directory?")
	}
	return all
}

func enter(p, name string) error {
	if p == root {
		return nil
	}
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// imports returns the import paths of the file.
func imports(t *testing.T, f *ast.File) []string {
	t.Helper()
	var paths []string
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("import %s: %v", spec.Path.Value, err)
		}
		paths = append(paths, p)
	}
	return paths
}

// rowOf returns the row of the package: the one with its path, else the longest
// "/..." row above it.
func rowOf(table []Package, p string) (Package, bool) {
	var best Package
	found := false
	for _, row := range table {
		if row.Path == p {
			return row, true
		}
		base, subtree := strings.CutSuffix(row.Path, "/...")
		if subtree && within(p, base) && len(row.Path) > len(best.Path) {
			best, found = row, true
		}
	}
	return best, found
}

// within reports whether p is base or below it.
func within(p, base string) bool { return p == base || strings.HasPrefix(p, base+"/") }

// ours returns the path of a project's package relative to the module.
func ours(imp string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}

// standard reports whether the path is of the standard library: its first element has
// no dot.
func standard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

// place returns where a node stands, relative to the module.
func (s *source) place(pos token.Pos) string {
	p := s.fset.Position(pos)
	return path.Join(s.path, filepath.Base(p.Filename)) + ":" + strconv.Itoa(p.Line)
}
