package archtest

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// code matches what Markdown shows as code in a line, and captures it.
	code = regexp.MustCompile("`([^`]+)`")
	// goName matches a name of Go, also of a method or of something in a package.
	goName = regexp.MustCompile(`^\*?[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\(\))?$`)
	// goFile matches the name of a file with source.
	goFile = regexp.MustCompile(`[\w./-]*\w\.(go|proto)\b`)
	goWord = regexp.MustCompile(`\w+`)
)

// fromOutside are names in the documents that only libraries have.
var fromOutside = map[string]bool{"ErrLeadershipLost": true}

// What the documents about design, limits and contributing call by a name in code is there: names in source or in a text
// that source has, and files.
func TestNamesAreThere(t *testing.T) {
	names, files := treeNames(t)
	found := 0
	walkMarkdown(t, func(path, text string) {
		file := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		if !strings.HasSuffix(file, "/DESIGN.md") && !slices.Contains([]string{"docs/limits.md", "docs/architecture.md", "CONTRIBUTING.md"}, file) {
			return
		}
		n := 0
		for line := range strings.Lines(text) {
			n++
			for _, gone := range goneNames(line, names, files) {
				t.Errorf("%s:%d: %s is not in the tree", file, n, gone)
			}
			found += len(code.FindAllString(line, -1))
		}
	})
	if found < 500 {
		t.Errorf("%d pieces of code found", found)
	}
}

// A name or file that is gone is found, one that is there is not.
func TestGoneNamesAreFound(t *testing.T) {
	names, files := map[string]bool{"Host": true, "due": true, "quorate_late_total": true}, map[string]bool{"a/b.go": true, "b.go": true}
	for line, want := range map[string]string{
		"`Host.due` of b.go, `late_total`, `raft.Gone` Gone": "raft.Gone",
		"`Host.gone()`":           "Host.gone()",
		"`a/b.go`, `../a/b.go`":   "",
		"| by c.go, a/c.go |":     "c.go a/c.go",
		"`two words`, `a: [b]`":   "",
		"`Host`, `*Gone`, `_due`": "*Gone _due",
	} {
		if got := strings.Join(goneNames(line, names, files), " "); got != want {
			t.Errorf("%s: gone are %q, want %q", line, got, want)
		}
	}
}

// goneNames returns what a line of a document names in code and the tree does not have.
func goneNames(line string, names, files map[string]bool) (gone []string) {
	has := func(w string) bool {
		if names[w] || fromOutside[w] {
			return true
		}
		for name := range names {
			if strings.Contains(w, "_") && strings.HasSuffix(name, "_"+w) {
				return true // a metric without its prefix
			}
		}
		return false
	}
	for _, m := range code.FindAllStringSubmatch(line, -1) {
		if !goName.MatchString(m[1]) || goFile.FindString(m[1]) == m[1] {
			continue
		}
		for _, w := range goWord.FindAllString(m[1], -1) {
			if !has(w) {
				gone = append(gone, m[1])
				break
			}
		}
	}
	for _, f := range goFile.FindAllString(line, -1) {
		for strings.HasPrefix(f, "../") {
			f = f[len("../"):]
		}
		if !files[f] {
			gone = append(gone, f)
		}
	}
	return gone
}

// treeNames returns the words of source that are no comments, and the files with source, by all ends of
// their paths.
func treeNames(t *testing.T) (names, files map[string]bool) {
	t.Helper()
	names, files = map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(p) {
		case ".go", ".proto", ".yaml", ".yml", ".json", ".mod":
		default:
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(p, root+string(filepath.Separator)))
		for rest, more := rel, true; more; _, rest, more = strings.Cut(rest, "/") {
			files[rest] = true
		}
		addWords(names, p, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, files
}

// addWords adds the words of a file, of Go those outside of comments.
func addWords(names map[string]bool, path string, text []byte) {
	if filepath.Ext(path) != ".go" {
		for _, w := range goWord.FindAll(text, -1) {
			names[string(w)] = true
		}
		return
	}
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(path, -1, len(text)), text, nil, 0)
	for {
		_, tok, lit := s.Scan()
		if tok == token.EOF {
			return
		}
		switch tok { //nolint:exhaustive // others have no words
		case token.IDENT:
			names[lit] = true
		case token.STRING:
			for _, w := range goWord.FindAllString(lit, -1) {
				names[w] = true
			}
		}
	}
}
