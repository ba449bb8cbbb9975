package archtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rewrite makes the document follow Table and the tree, for the diff to be read.
var rewrite = flag.Bool("rewrite", false, "rewrite the table of docs/architecture.md")

// documented is a row of the table in docs/architecture.md.
type documented struct {
	Package
	state string // "now" or "planned"
	text  string // what it is for; written by people
}

// The table in docs/architecture.md is this package's table, row by row in the same
// order, and its states are those of the tree.
func TestArchitectureDocument(t *testing.T) {
	const file = "docs/architecture.md"
	if *rewrite {
		rewriteTable(t, file)
	}
	rows, table, all := documentTable(t, file), Table(), load(t)
	for i := range max(len(rows), len(table)) {
		if i >= len(rows) {
			t.Errorf("%s has no row for %s; it would be:\n%s", file, table[i].Path, render(table[i]))
			continue
		}
		if i >= len(table) {
			t.Errorf("%s has a row for %s, Table has none", file, rows[i].Path)
			continue
		}
		if got, want := render(rows[i].Package), render(table[i]); got != want {
			t.Errorf("%s, row %d differs from Table (go test ./internal/archtest -rewrite)\nis:   %s\nwant: %s", file, i+1, got, want)
		}
	}
	for _, row := range rows {
		if row.text == "" {
			t.Errorf("%s: say in a few words what %s is for", file, row.Path)
		}
		exists := exists(all, row.Path)
		switch {
		case row.state != "now" && row.state != "planned":
			t.Errorf("%s: %s has state %q, want now or planned", file, row.Path, row.state)
		case exists && row.state == "planned":
			t.Errorf("%s: %s is there: its state is now, not planned", file, row.Path)
		case !exists && row.state == "now":
			t.Errorf("%s: %s is not there: its state is planned", file, row.Path)
		}
	}
}

// exists reports whether the package, or for a "/..." row one below it, has source.
func exists(all []*source, p string) bool {
	base, subtree := strings.CutSuffix(p, "/...")
	return slices.ContainsFunc(all, func(s *source) bool {
		return s.path == base || subtree && within(s.path, base)
	})
}

// documentTable reads the first table of the file whose header begins with Package.
func documentTable(t *testing.T, file string) []documented {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	var rows []documented
	inside := false
	for line := range strings.Lines(string(text)) {
		cells := cellsOf(line)
		switch {
		case len(cells) == 0:
			if inside {
				return rows
			}
		case cells[0] == "Package":
			inside = true
			want := []string{"Package", "State", "Pure", "What it is for", "Imports of the project", "Third party"}
			if !slices.Equal(cells, want) {
				t.Fatalf("%s: header is %q, want %q", file, cells, want)
			}
		case inside && !strings.HasPrefix(cells[0], "-"):
			if len(cells) != 6 {
				t.Fatalf("%s: row %q has %d cells, want 6", file, line, len(cells))
			}
			rows = append(rows, documented{
				Package: Package{
					Path: strings.Trim(cells[0], "`"), Pure: cells[2] == "yes",
					Imports: names(cells[4]), ThirdParty: names(cells[5]),
				},
				state: cells[1], text: cells[3],
			})
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no table with the header Package", file)
	}
	return rows
}

// cellsOf returns the trimmed cells of a Markdown table line, none if it is not one.
func cellsOf(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// names splits "`a`, `b`"; "–" is none.
func names(cell string) []string {
	if cell == "–" {
		return nil
	}
	var list []string
	for name := range strings.SplitSeq(cell, ",") {
		list = append(list, strings.Trim(strings.TrimSpace(name), "`"))
	}
	return list
}

// rewriteTable replaces the rows; the texts of known packages stay.
func rewriteTable(t *testing.T, file string) {
	t.Helper()
	name := filepath.Join(root, file)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, row := range documentTable(t, file) {
		texts[row.Path] = row.text
	}
	var out strings.Builder
	state, all := "before", load(t)
	for line := range strings.Lines(string(text)) {
		cells := cellsOf(line)
		switch {
		case state == "before" && len(cells) > 0 && cells[0] == "Package":
			state = "header"
		case state == "header":
			state = "rows"
			out.WriteString(line)
			for _, p := range Table() {
				now := "planned"
				if exists(all, p.Path) {
					now = "now"
				}
				out.WriteString(row(p, now, texts[p.Path]) + "\n")
			}
			continue
		case state == "rows" && len(cells) > 0:
			continue
		case state == "rows":
			state = "after"
		}
		out.WriteString(line)
	}
	if err := os.WriteFile(name, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// render writes the cells that are compared, as they stand in the document.
func render(p Package) string { return row(p, "…", "…") }

func row(p Package, state, text string) string {
	pure := ""
	if p.Pure {
		pure = "yes"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |",
		p.Path, state, pure, text, join(p.Imports, "`"), join(p.ThirdParty, ""))
}

func join(list []string, quote string) string {
	if len(list) == 0 {
		return "–"
	}
	quoted := make([]string, 0, len(list))
	for _, name := range list {
		if name == "any" {
			quoted = append(quoted, name)
			continue
		}
		quoted = append(quoted, quote+name+quote)
	}
	return strings.Join(quoted, ", ")
}
