package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// Every package stands in the table and imports only what its row allows.
func TestImports(t *testing.T) {
	table, modules := Table(), Modules()
	for _, s := range load(t) {
		row, known := rowOf(table, s.path)
		if !known {
			t.Errorf("package %s is not in the table: add a row to Table in internal/archtest/archtest.go and the same row "+
				"to docs/architecture.md §2, with what it may import and why it exists", s.path)
			continue
		}
		for _, f := range s.files {
			for _, imp := range imports(t, f) {
				if !allowed(row, modules, imp) {
					t.Errorf("%s: package %s must not import %s: either the code belongs elsewhere, or the arrow is meant "+
						"and goes into Table and docs/architecture.md §2", s.place(f.Package), s.path, imp)
				}
			}
		}
	}
}

func allowed(row Package, modules map[string]string, imp string) bool {
	if p, is := ours(imp); is {
		base, subtree := strings.CutSuffix(row.Path, "/...")
		return slices.Contains(row.Imports, "any") || slices.Contains(row.Imports, p) || subtree && within(p, base)
	}
	if standard(imp) {
		return !row.Pure || slices.Contains(PureStd(), imp)
	}
	if slices.Contains(row.ThirdParty, "any") {
		return true
	}
	return slices.ContainsFunc(row.ThirdParty, func(name string) bool { return within(imp, modules[name]) })
}

// The table itself is sound: rows are unique, arrows lead to rows, names of modules
// are known, and nothing pure imports what is not.
func TestTable(t *testing.T) {
	table := Table()
	seen := map[string]bool{}
	for _, row := range table {
		if seen[row.Path] {
			t.Errorf("two rows for %s", row.Path)
		}
		seen[row.Path] = true
		for _, imp := range row.Imports {
			if imp == "any" {
				continue
			}
			to, known := rowOf(table, imp)
			if !known {
				t.Errorf("%s may import %s, which has no row", row.Path, imp)
			}
			if row.Pure && !to.Pure {
				t.Errorf("%s is pure and may not import %s, which is not", row.Path, imp)
			}
		}
		if row.Pure && len(row.ThirdParty) > 0 {
			t.Errorf("%s is pure and may not import %v", row.Path, row.ThirdParty)
		}
		for _, name := range row.ThirdParty {
			if _, known := Modules()[name]; !known && name != "any" {
				t.Errorf("%s: module name %q is not in Modules", row.Path, name)
			}
		}
	}
	without := map[string]bool{}
	for _, row := range table {
		if path := cycle(table, row.Path, nil, without); path != nil {
			t.Errorf("the table allows a cycle: %s", strings.Join(path, " → "))
		}
	}
}

// cycle returns a way from the package back to itself, or nil. It adds to those without a cycle, which are not looked at again.
func cycle(table []Package, from string, way []string, without map[string]bool) []string {
	if i := slices.Index(way, from); i >= 0 {
		return append(way[i:], from)
	}
	if without[from] {
		return nil
	}
	row, known := rowOf(table, from)
	if !known {
		return nil
	}
	way = append(slices.Clone(way), from)
	for _, imp := range row.Imports {
		if found := cycle(table, imp, way, without); imp != "any" && found != nil {
			return found
		}
	}
	without[from] = true
	return nil
}

// Pure packages start no goroutine, know no channel and read no clock.
func TestPure(t *testing.T) {
	table := Table()
	for _, s := range load(t) {
		row, known := rowOf(table, s.path)
		if !known || !row.Pure {
			continue
		}
		for _, f := range s.files {
			name := timeName(f)
			ast.Inspect(f, func(n ast.Node) bool {
				if fault := impure(n, name); fault != "" {
					t.Errorf("%s: pure package %s %s; pass it in as a parameter or move the code out",
						s.place(n.Pos()), s.path, fault)
				}
				return true
			})
		}
	}
}

// timeName returns the name under which the file imports package time.
func timeName(f *ast.File) string {
	for _, spec := range f.Imports {
		if spec.Path.Value == `"time"` && spec.Name != nil {
			return spec.Name.Name
		}
	}
	return "time"
}

func impure(n ast.Node, timeName string) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "starts a goroutine"
	case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		return "uses a channel"
	case *ast.SelectorExpr:
		x, is := n.X.(*ast.Ident)
		if is && x.Name == timeName && slices.Contains(Clock(), n.Sel.Name) {
			return "uses time." + n.Sel.Name
		}
	}
	return ""
}

// Every package says in its comment what it is. Generated packages speak in their
// source.
func TestPackageComments(t *testing.T) {
	for _, s := range load(t) {
		has := slices.ContainsFunc(s.files, func(f *ast.File) bool {
			return ast.IsGenerated(f) || f.Doc != nil && len(strings.TrimSpace(f.Doc.Text())) > 0
		})
		if !has {
			t.Errorf("package %s has no package comment: say what it does, who owns its state, its errors and limits", s.path)
		}
	}
}
