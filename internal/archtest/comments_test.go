package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"testing"
)

const (
	// commentedPercent is the least share of a package's unexported declarations that have a comment.
	commentedPercent = 90
	// plainLines is by how many lines a function may end below its first one and still need no comment.
	plainLines = 3
)

// commentedRow is a package and the share in percent of its unexported declarations that have a comment.
type commentedRow struct {
	path    string
	percent int
}

// lessCommented lists the packages that do not reach commentedPercent yet, with the share in percent that they
// must keep. Rows leave this table, none is added.
func lessCommented() []commentedRow {
	return []commentedRow{
		{"chaos", 57},
		{"chaos/fault", 62},
	}
}

// Comments say why, or what always holds, for names that godoc does not show too: each package has them on its
// unexported types and on its unexported functions that are more than a line or two. Tests and generated files
// are left out.
func TestUnexportedAreCommented(t *testing.T) {
	below := map[string]int{}
	for _, row := range lessCommented() {
		below[row.path] = row.percent
	}
	for _, s := range load(t) {
		bare, all := s.uncommented()
		share := 100
		if all > 0 {
			share = (all - len(bare)) * 100 / all
		}
		least, listed := below[s.path]
		delete(below, s.path)
		switch {
		case listed && share >= commentedPercent:
			t.Errorf("%s: %d %% are commented: take its row out of lessCommented", s.path, share)
		case !listed:
			least = commentedPercent
		}
		if share >= least {
			continue
		}
		t.Errorf("%s: %d of %d unexported declarations have no comment, %d %% have one, %d %% are wanted; say why they are there or what always holds:",
			s.path, len(bare), all, share, least)
		for _, b := range bare {
			t.Errorf("\t%s", b)
		}
	}
	for _, gone := range slices.Sorted(maps.Keys(below)) {
		t.Errorf("lessCommented has a row for %s, which is no package", gone)
	}
}

// uncommented returns the package's unexported declarations that need a comment and have none, and how many
// count at all. A function of a line or two counts only if it has one.
func (s *source) uncommented() (bare []string, all int) {
	see := func(name *ast.Ident, commented bool) {
		if name.IsExported() {
			return
		}
		all++
		if !commented {
			bare = append(bare, fmt.Sprintf("%s: %s", s.place(name.Pos()), name.Name))
		}
	}
	for _, f := range s.files {
		if ast.IsGenerated(f) {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Doc != nil || s.line(d.End())-s.line(d.Pos()) > plainLines {
					see(d.Name, d.Doc != nil)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if of, is := spec.(*ast.TypeSpec); is {
						see(of.Name, d.Doc != nil || of.Doc != nil || of.Comment != nil)
					}
				}
			}
		}
	}
	return bare, all
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }
