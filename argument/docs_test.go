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
	semantics.names("for queues those of the arguments:", "Values have", users)
	semantics.names("Operator policies give, of these:", "Any other is refused.", operators)
	document{t, "../docs/compatibility.md"}.has("| Argument | | Differences |\n|---|---|---|\n", "| `x-queue-master-locator`", strings.Join(others, "\n")+"\n")
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

// names expects a list of names between two texts of a paragraph, wherever its lines end: internal/archtest wraps them.
func (d document) names(from, to string, want []string) {
	d.Helper()
	text, err := os.ReadFile(d.file)
	if err != nil {
		d.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), from)
	got, after, ends := strings.Cut(rest, to)
	list := strings.Join(want, ", ") + "."
	switch {
	case !begins || !ends:
		d.Fatalf("%s has no %q with %q behind it", d.file, from, to)
	case strings.Join(strings.Fields(got), " ") == list:
	case *rewrite:
		if err := os.WriteFile(d.file, []byte(before+from+" "+list+" "+to+after), 0o644); err != nil {
			d.Fatal(err)
		}
	default:
		d.Errorf("%s differs from the table (go test ./argument -rewrite)\nis:\n%s\nwant:\n%s", d.file, got, list)
	}
}
