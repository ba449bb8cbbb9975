package argument_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/quorate/quorate/argument"
)

// rewrite makes the documents follow the table, for the diff to be read.
var rewrite = flag.Bool("rewrite", false, "rewrite the tables of arguments in docs")

// The documents have the table as it is: what an argument may be and does, how RabbitMQ's differs, and
// the keys of policies (PO-2, PO-5).
func TestDocs(t *testing.T) {
	var rows, others []string
	var users, operators []string
	for r := range argument.Rows() {
		name := "`" + r.Name + "`"
		if strings.HasSuffix(r.Name, "-") {
			name = "`" + r.Name + "…`"
		}
		state := r.State
		if r.ClassicOnly {
			state += "; refused on quorum ones"
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", name, r.Values, r.Default, state))
		verdict, how, _ := strings.Cut(r.RabbitMQ, ": ")
		if how == "" {
			how = "–"
		}
		others = append(others, fmt.Sprintf("| %s | %s | %s |", name, verdict, how))
		if r.Key != "" {
			users = append(users, "`"+r.Key+"`")
		}
		if r.Operators {
			operators = append(operators, "`"+r.Key+"`")
		}
	}
	semantics := document{t, "../docs/semantics.md"}
	semantics.has("| Argument | Values | Default | State |\n|---|---|---|---|\n", "| any other name", strings.Join(rows, "\n")+"\n")
	semantics.has("for queues those of the arguments:\n", "  Values have", wrapped(users))
	semantics.has("Operator policies give, of these:\n", "  Any other is refused.", wrapped(operators))
	document{t, "../docs/compatibility.md"}.has("| Argument | | Differences |\n|---|---|---|\n", "| `x-queue-master-locator`", strings.Join(others, "\n")+"\n")
}

// widest is how wide a line of a paragraph is, in characters.
const widest = 120

// wrapped lists names as the rest of an item of a list.
func wrapped(names []string) string {
	var b strings.Builder
	line := " "
	for i, n := range names {
		n += ","
		if i == len(names)-1 {
			n = strings.TrimSuffix(n, ",") + "."
		}
		if len(line)+1+len(n) > widest {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " " + n
	}
	return b.String() + line + "\n"
}

type document struct {
	*testing.T
	file string
}

// has expects the text between two others.
func (d document) has(from, to, want string) {
	d.Helper()
	text, err := os.ReadFile(d.file)
	if err != nil {
		d.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), from)
	got, after, ends := strings.Cut(rest, to)
	switch {
	case !begins || !ends:
		d.Fatalf("%s has no %q with %q behind it", d.file, from, to)
	case got == want:
	case *rewrite:
		if err := os.WriteFile(d.file, []byte(before+from+want+to+after), 0o644); err != nil {
			d.Fatal(err)
		}
	default:
		d.Errorf("%s differs from the table (go test ./argument -rewrite)\nis:\n%s\nwant:\n%s", d.file, got, want)
	}
}
