package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const compatibility = "docs/compatibility.md"

// verdicts are the words with which a row of the comparison begins, behind what it is about.
func verdicts() []string { return []string{"same", "better", "different", "none", "missing"} }

// comparison is a table row whose second or third cell is a verdict.
type comparison struct {
	line  int
	cells []string
	about string // the cells before the verdict
}

// comparisons reads the rows of docs/compatibility.md.
func comparisons(t *testing.T) []comparison {
	t.Helper()
	var rows []comparison
	for n, line := range strings.Split(readDocument(t, compatibility), "\n") {
		cells := cellsOf(line)
		for at := 1; at < len(cells) && at < 3; at++ {
			if slices.Contains(verdicts(), cells[at]) {
				rows = append(rows, comparison{n + 1, cells, strings.Join(cells[:at], " | ")})
				break
			}
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no row with a verdict", compatibility)
	}
	return rows
}

func readDocument(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every rule of docs/semantics.md is compared with RabbitMQ's, and so is every decision; a row is
// about rules that there are, and says something on both sides.
func TestEveryRuleIsCompared(t *testing.T) {
	defined := map[string]bool{}
	for _, file := range []string{"docs/semantics.md", compatibility} {
		defineRules(t, file, defined)
	}
	compared := map[string]bool{}
	for _, row := range comparisons(t) {
		if slices.Contains(row.cells[2:], "") || len(row.cells) < 3 {
			t.Errorf("%s:%d: a cell is empty: write – where there is nothing to say", compatibility, row.line)
		}
		for _, id := range ruleIDs(row.cells[0]) {
			compared[id] = true
			if !defined[id] {
				t.Errorf("%s:%d: there is no rule %s", compatibility, row.line, id)
			}
		}
	}
	for id := range defined {
		if !compared[id] {
			t.Errorf("%s has no row for %s: say what RabbitMQ does, what Quorate does, and one of %q", compatibility, id, verdicts())
		}
	}
}

// Every method of AMQP 0-9-1 has a row that names its fields.
func TestEveryMethodIsCompared(t *testing.T) {
	rows := map[string]comparison{}
	for _, row := range comparisons(t) {
		for name := range strings.SplitSeq(row.cells[0], ", ") {
			if _, known := rows[name]; !known {
				rows[name] = row
			}
		}
	}
	methods := amqpMethods(t)
	if len(methods) < 50 {
		t.Fatalf("%d methods found", len(methods))
	}
	for name, fields := range methods {
		row, known := rows[name]
		if !known {
			t.Errorf("%s has no row for %s", compatibility, name)
			continue
		}
		for _, f := range fields {
			if !strings.Contains(row.cells[1], "`"+f+"`") {
				t.Errorf("%s:%d: the row of %s does not name its field `%s`", compatibility, row.line, name, f)
			}
		}
	}
}

// documentedMethod is the doc comment of a generated method.
var documentedMethod = regexp.MustCompile(`^\w+ is ([a-z]+\.[a-z-]+)\.\n$`)

// amqpMethods returns the fields of each method that package amqp/wire generates.
func amqpMethods(t *testing.T) map[string][]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "amqp/wire/methods.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string][]string{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		m := documentedMethod.FindStringSubmatch(g.Doc.Text())
		if m == nil {
			continue
		}
		s, ok := g.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
		if !ok {
			continue
		}
		methods[m[1]] = nil
		for _, field := range s.Fields.List {
			for _, n := range field.Names {
				methods[m[1]] = append(methods[m[1]], kebab(n.Name))
			}
		}
	}
	return methods
}

var capital = regexp.MustCompile(`ID|[A-Z]`)

// kebab turns a field's Go name into that of the protocol.
func kebab(name string) string {
	return strings.TrimPrefix(capital.ReplaceAllStringFunc(name, func(s string) string { return "-" + strings.ToLower(s) }), "-")
}
