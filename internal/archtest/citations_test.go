package archtest

import (
	"bufio"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// ruleID matches the id of a rule of behaviour, DL-25 for example; group 1 is its
	// family. Families that are not listed belong to others: UTF-8, CVE-2024, RFC-793.
	ruleID = regexp.MustCompile(`^(C|EX|Q|MSG|PUB|TTL|LEN|DL|DEL|PR|CO|DC|RE|ST|VH|AM|SAC|CT|DR|DLY|QX|PO|CN|AU|BK|G|ID|D)-[0-9]+$`)
	// word cuts a comment so that an id within a longer word is not seen as one.
	word = regexp.MustCompile(`[A-Za-z0-9_-]+`)
	// definition is the place in a document that explains a rule.
	definition = regexp.MustCompile(`<a id="([a-z]+-[0-9]+)"></a>\*\*([A-Z]+-[0-9]+)\*\*`)
)

// ruleDocument names the document that explains rules of the id's family.
func ruleDocument(id string) string {
	if strings.HasPrefix(id, "D-") {
		return "docs/compatibility.md"
	}
	return "docs/semantics.md"
}

// Every rule id in a comment of a Go file, tests included, is explained in
// docs/semantics.md; the decisions D-n in docs/compatibility.md.
func TestCitedRulesAreDefined(t *testing.T) {
	defined := map[string]bool{}
	for _, file := range []string{"docs/semantics.md", "docs/compatibility.md"} {
		defineRules(t, file, defined)
	}
	cited := 0
	walkGo(t, func(file string) {
		for _, c := range citations(t, file) {
			cited++
			if !defined[c.id] {
				t.Errorf("%s: %s is not defined in %s", c.place, c.id, ruleDocument(c.id))
			}
		}
	})
	if cited == 0 {
		t.Error("no Go comment cites a rule: is the test run in its directory?")
	}
}

// defineRules adds the rules that the document defines, and fails for one that is
// defined twice, in the wrong document, or under an anchor of another name.
func defineRules(t *testing.T, file string, defined map[string]bool) {
	t.Helper()
	f, err := os.Open(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		for _, m := range definition.FindAllStringSubmatch(lines.Text(), -1) {
			anchor, id := m[1], m[2]
			switch {
			case anchor != strings.ToLower(id):
				t.Errorf("%s:%d: the anchor of %s is %q, want %q", file, n, id, anchor, strings.ToLower(id))
			case !ruleID.MatchString(id) || ruleDocument(id) != file:
				t.Errorf("%s:%d: %s is not a rule of this document", file, n, id)
			case defined[id]:
				t.Errorf("%s:%d: %s is defined a second time", file, n, id)
			}
			defined[id] = true
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// citation is a rule id in a comment.
type citation struct{ id, place string }

// citations returns the rule ids in the comments of a file, which is named relative to
// the module.
func citations(t *testing.T, file string) []citation {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, filepath.Join(root, file), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []citation
	for _, group := range f.Comments {
		for _, c := range group.List {
			at := fset.Position(c.Pos()).Line
			for i, line := range strings.Split(c.Text, "\n") {
				for _, id := range ruleIDs(line) {
					found = append(found, citation{id, file + ":" + strconv.Itoa(at+i)})
				}
			}
		}
	}
	return found
}

// ruleIDs returns the rule ids in a text.
func ruleIDs(text string) []string {
	var ids []string
	for _, w := range word.FindAllString(text, -1) {
		if ruleID.MatchString(w) {
			ids = append(ids, w)
		}
	}
	return ids
}

// walkGo visits every Go file, those of tests and of modules of their own included;
// files are named relative to the module, with slashes.
func walkGo(t *testing.T, visit func(file string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Ids are found as whole words and nothing else is taken for one.
func TestRuleIDs(t *testing.T) {
	for text, want := range map[string]string{
		"keeps order (PUB-6).":                   "PUB-6",
		"LEN-3 to LEN-5, DL-30…DL-39; DLY-1/C-1": "LEN-3 LEN-5 DL-30 DL-39 DLY-1 C-1",
		"UTF-8, CVE-2024-1, RFC-793, SHA-256":    "",
		"ABC-1, X_C-1, EX-1-2, C-x, dl-25, PR-":  "",
		"C-1":                                    "C-1",
	} {
		if got := strings.Join(ruleIDs(text), " "); got != want {
			t.Errorf("ruleIDs(%q) = %q, want %q", text, got, want)
		}
	}
}
