package archtest

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// reference is one use, in a file of a package, of a function, method, type, variable or constant that
// another file of it declares. Fields do not count: who uses one has its type from a file that does.
type reference struct {
	from, to int // files, by their place in typed.names
	name     string
	place    string
}

// typed is a package of which it is known what each name means.
type typed struct {
	names      []string // of the files that are built here, in the order of the alphabet
	files      []*ast.File
	references []reference
}

// between counts the references from one file to another.
func (p *typed) between() [][]int {
	count := make([][]int, len(p.names))
	for i := range count {
		count[i] = make([]int, len(p.names))
	}
	for _, r := range p.references {
		count[r.from][r.to]++
	}
	return count
}

// backReferences returns the references that go against an order: to a file that stands after theirs.
func (p *typed) backReferences(order []int) []reference {
	place := make([]int, len(order))
	for i, file := range order {
		place[file] = i
	}
	var back []reference
	for _, r := range p.references {
		if place[r.from] < place[r.to] {
			back = append(back, r)
		}
	}
	return back
}

// check finds what the names in a parsed package mean. The packages that it imports come from an importer.
func (s *source) check(from types.Importer) (*typed, error) {
	p := &typed{}
	for _, f := range s.files {
		name := s.name(f)
		built, err := build.Default.MatchFile(filepath.Join(root, s.path), name)
		if err != nil {
			return nil, err
		}
		if built {
			p.names, p.files = append(p.names, name), append(p.files, f)
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: from}).Check(s.path, s.fset, p.files, info)
	if err != nil {
		return nil, err
	}
	for i, f := range p.files {
		ast.Inspect(f, func(n ast.Node) bool {
			name, is := n.(*ast.Ident)
			if !is {
				return true
			}
			object := info.Uses[name]
			if object == nil || object.Pkg() != pkg {
				return true
			}
			if v, is := object.(*types.Var); is && v.IsField() {
				return true
			}
			to := slices.Index(p.names, filepath.Base(s.fset.Position(object.Pos()).Filename))
			if to != i {
				p.references = append(p.references, reference{from: i, to: to, name: name.Name, place: s.place(name.Pos())})
			}
			return true
		})
	}
	return p, nil
}

// name returns the name of a file, without its directory.
func (s *source) name(f *ast.File) string { return filepath.Base(s.fset.Position(f.Package).Filename) }

// compiled returns an importer of what the packages with the given paths import: it reads what the compiler
// has written, which the go command makes where it is missing.
func compiled(t *testing.T, paths []string) types.Importer {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, p := range paths {
		args = append(args, "./"+p)
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir = root
	list.Stderr = os.Stderr
	text, err := list.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(text)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		file := files[path]
		if file == "" {
			return nil, fmt.Errorf("%s has not been compiled", path)
		}
		return os.Open(file)
	})
}

// bestOrder looks for an order of files, lower ones first, with few references back up: at first whichever
// file refers least to those that are left, in relation to how much they refer to it, then the best move of a
// single file until none is left. It finds the same order each time, and not always the best one there is.
func bestOrder(count [][]int) []int {
	var order, left []int
	for i := range count {
		left = append(left, i)
	}
	for len(left) > 0 {
		best := slices.MinFunc(left, func(a, b int) int { return leans(count, left, a) - leans(count, left, b) })
		order = append(order, best)
		left = slices.DeleteFunc(left, func(i int) bool { return i == best })
	}
	for moveOne(count, order) {
	}
	return order
}

// leans returns how many more references lead from a file to those that are left than from these to it. A file that
// refers to none of them leans less than all that do.
func leans(count [][]int, left []int, file int) int {
	up, down := 0, 0
	for _, other := range left {
		up += count[file][other]
		down += count[other][file]
	}
	if up == 0 {
		return -1 << 30
	}
	return up - down
}

// moveOne moves the file whose move takes away the most references back up, and reports whether there is one.
func moveOne(count [][]int, order []int) bool {
	gain, from, to := 0, 0, 0
	for i, file := range order {
		change := 0
		for j := i + 1; j < len(order); j++ { // behind order[j]
			change += count[file][order[j]] - count[order[j]][file]
			if change > gain {
				gain, from, to = change, i, j
			}
		}
		change = 0
		for j := i - 1; j >= 0; j-- { // ahead of order[j]
			change += count[order[j]][file] - count[file][order[j]]
			if change > gain {
				gain, from, to = change, i, j
			}
		}
	}
	if gain == 0 {
		return false
	}
	file := order[from]
	if from < to {
		copy(order[from:], order[from+1:to+1])
	} else {
		copy(order[to+1:], order[to:from])
	}
	order[to] = file
	return true
}

// The best order is found where there is one without references back up, and where there is none.
func TestBestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		count [][]int
		back  int
	}{
		"none":            {nil, 0},
		"one":             {[][]int{{0}}, 0},
		"a line":          {[][]int{{0, 1, 1}, {0, 0, 1}, {0, 0, 0}}, 0},
		"a line, upright": {[][]int{{0, 0, 0}, {9, 0, 0}, {1, 1, 0}}, 0},
		"a pair":          {[][]int{{0, 5}, {2, 0}}, 2},
		"a circle":        {[][]int{{0, 4, 0}, {0, 0, 3}, {1, 0, 0}}, 1},
		"two circles": {[][]int{
			{0, 7, 0, 0},
			{1, 0, 0, 0},
			{3, 0, 0, 2},
			{0, 0, 5, 0},
		}, 3},
	} {
		order := bestOrder(c.count)
		if sorted := slices.Sorted(slices.Values(order)); len(sorted) != len(c.count) || len(slices.Compact(sorted)) != len(sorted) {
			t.Errorf("%s: the order %v does not have each file once", name, order)
			continue
		}
		back := 0
		for i, file := range order {
			for _, later := range order[i+1:] {
				back += c.count[file][later]
			}
		}
		if back != c.back {
			t.Errorf("%s: the order %v has %d references back up, want %d", name, order, back, c.back)
		}
	}
}

// A reference is a use in another file of what godoc could list; fields, files that are not built and uses in the same file do not count.
func TestReferencesAreFound(t *testing.T) {
	s := &source{path: "internal/archtest/testdata/files", fset: token.NewFileSet()}
	for _, name := range []string{"high.go", "low.go", "never.go"} {
		f, err := parser.ParseFile(s.fset, filepath.Join(root, s.path, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, f)
	}
	p, err := s.check(compiled(t, []string{s.path}))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, r := range p.references {
		found = append(found, p.names[r.from]+": "+r.name)
	}
	want := []string{
		"high.go: low", "high.go: method", "high.go: constant", "high.go: method", "high.go: variable", "high.go: function", "low.go: same",
	}
	if !slices.Equal(found, want) {
		t.Errorf("the references are %q, want %q", found, want)
	}
	order := bestOrder(p.between())
	if back := p.backReferences(order); len(back) != 1 || back[0].name != "same" || back[0].place != s.path+"/low.go:8" {
		t.Errorf("the references back up are %v, want that to same", back)
	}
}
