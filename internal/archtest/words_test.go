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
	"unicode"
)

// retired is a row of the glossary's table of words that are no longer used.
type retired struct {
	pattern *regexp.Regexp
	instead string
}

// others are phrases with a retired word that is another product's (RabbitMQ's, Argon2's, hashicorp/raft's), a
// guarantee's name, or the name of a call between nodes, which those of other versions know.
var others = regexp.MustCompile(`in[ -]flight|lazy queues?|leader(?:'s)? lease|within its lease|tells the truth|tell disk`)

// wireNames are texts of product code with a retired word that must stay: names that are sent or stored, and those of
// other programs.
var wireNames = []string{
	`"beat"`, `"quorate-beat/1"`, "`json:\"Dissolving,omitzero\"`",
	`"lease"`, `"--lazy"`, `"lazy_itable_init=1,nodiscard"`,
}

// Words that the glossary retires do not come back: in names, comments and texts of Go code, in protocols, in scenarios of
// conformance, and in documents.
func TestRetiredWords(t *testing.T) {
	words := retiredWords(t, "docs/glossary.md")
	if len(words) == 0 {
		t.Fatal("docs/glossary.md retires no word: is its table still there?")
	}
	walkGo(t, func(file string) {
		if strings.HasSuffix(file, ".pb.go") {
			return
		}
		for line, text := range sayings(t, file) {
			checkWords(t, words, file, line, text)
		}
	})
	walkFiles(t, ".proto", func(file, text string) {
		for i, line := range strings.Split(text, "\n") {
			checkWords(t, words, file, i+1, partNames(quoted.ReplaceAllString(line, "")))
		}
	})
	walkFiles(t, ".txt", func(file, text string) {
		if !strings.Contains(file, "/conformance/") {
			return
		}
		for i, line := range strings.Split(text, "\n") {
			if !strings.HasPrefix(line, ">") { // what a client is to do, with names of its own
				checkWords(t, words, file, i+1, line)
			}
		}
	})
	walkMarkdown(t, func(file, text string) {
		if strings.Contains(file, "docs/adr/") || strings.HasSuffix(file, "CHANGELOG.md") || strings.HasSuffix(file, "glossary.md") {
			return
		}
		fenced := false
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if !fenced {
				checkWords(t, words, file, i+1, codeSpan.ReplaceAllString(line, ""))
			}
		}
	})
}

// codeSpan matches code within prose, whose words may be a protocol's.
var codeSpan = regexp.MustCompile("`[^`]*`")

// quoted matches a text in a protocol, which may be a name of a frame's class.
var quoted = regexp.MustCompile(`"[^"]*"`)

func checkWords(t *testing.T, words []retired, file string, line int, text string) {
	t.Helper()
	text = others.ReplaceAllString(strings.ToLower(text), "")
	for _, w := range words {
		if found := w.pattern.FindString(text); found != "" {
			t.Errorf("%s:%d: %q is retired (docs/glossary.md); say %s", strings.TrimPrefix(file, root+"/"), line, found, w.instead)
		}
	}
}

// retiredWords reads the table below the glossary's second heading.
func retiredWords(t *testing.T, file string) []retired {
	t.Helper()
	_, table, found := strings.Cut(readDocument(t, file), "## Retired words")
	if !found {
		t.Fatalf("%s has no heading \"Retired words\"", file)
	}
	var words []retired
	for line := range strings.Lines(table) {
		cells := cellsOf(strings.ReplaceAll(line, `\|`, "\x00"))
		if len(cells) != 2 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		pattern := strings.ReplaceAll(strings.Trim(cells[0], "`"), "\x00", "|")
		re, err := regexp.Compile(`\b(?:` + pattern + `)\b`)
		if err != nil {
			t.Fatalf("%s: pattern %q: %v", file, pattern, err)
		}
		words = append(words, retired{re, cells[1]})
	}
	return words
}

// sayings returns what a file says in names, parted at their capitals, in comments, and in texts if it is no test, by line.
func sayings(t *testing.T, file string) map[int]string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	f := set.AddFile(file, set.Base(), len(src))
	var s scanner.Scanner
	s.Init(f, src, nil, scanner.ScanComments)
	lines := map[int]string{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return lines
		}
		text := tok == token.STRING && !strings.HasSuffix(file, "_test.go") && !slices.Contains(wireNames, lit)
		if tok == token.IDENT || tok == token.COMMENT || text {
			lines[f.Line(pos)] += " " + partNames(lit)
		}
	}
}

// partNames puts a space where a small letter is followed by a capital one.
func partNames(text string) string {
	var out strings.Builder
	var last rune
	for _, r := range text {
		if unicode.IsUpper(r) && unicode.IsLower(last) {
			out.WriteByte(' ')
		}
		if r == '_' {
			r = ' '
		}
		out.WriteRune(r)
		last = r
	}
	return out.String()
}

// walkMarkdown visits the project's documents.
func walkMarkdown(t *testing.T, visit func(file, text string)) {
	t.Helper()
	walkFiles(t, ".md", visit)
}

// walkFiles visits the project's files with a name that ends so.
func walkFiles(t *testing.T, end string, visit func(file, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, end) {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		visit(p, string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A retired word is found wherever it stands, and nowhere else.
func TestRetiredWordsAreFound(t *testing.T) {
	w := []retired{{regexp.MustCompile(`\b(?:lanes?)\b`), "queue"}}
	for text, want := range map[string]bool{
		"openLanes": true, "lane_of": true, "a Lane.": true, "planes": false, "laneless": false,
	} {
		if got := w[0].pattern.MatchString(strings.ToLower(partNames(text))); got != want {
			t.Errorf("%q: found is %v, want %v", text, got, want)
		}
	}
}
