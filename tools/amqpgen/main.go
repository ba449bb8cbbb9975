// Command amqpgen writes the method structs, ids and reply codes of package amqp/wire from
// the AMQP 0-9-1 specification in XML with RabbitMQ's extensions:
//
//	amqpgen -spec amqp0-9-1.xml -out ../../amqp/wire/methods.go
package main

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"go/format"
	"os"
	"strings"
	"text/template"

	_ "github.com/rabbitmq/amqp091-go" // its module carries the specification
)

// main exits with 1 on any error and then writes no file.
func main() {
	path := flag.String("spec", "", "path of the specification, an XML file")
	out := flag.String("out", "", "path of the Go file to write")
	flag.Parse()
	if err := run(*path, *out); err != nil {
		fmt.Fprintln(os.Stderr, "amqpgen:", err)
		os.Exit(1)
	}
}

// run generates and formats the code in memory before it writes, so that a fault leaves the old
// file in place.
func run(path, out string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s spec
	if err := xml.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := s.resolve(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var code bytes.Buffer
	if err := template.Must(template.New("methods").Parse(file)).Execute(&code, &s); err != nil {
		return err
	}
	formatted, err := format.Source(code.Bytes())
	if err != nil {
		return fmt.Errorf("the generated code is not valid Go: %w", err)
	}
	return os.WriteFile(out, formatted, 0o644)
}

// goName converts a name of the specification to a Go name.
func goName(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		for word := range strings.SplitSeq(p, "-") {
			switch word {
			case "id", "ok":
				b.WriteString(strings.ToUpper(word))
			case "nowait":
				b.WriteString("NoWait")
			default:
				b.WriteString(strings.ToUpper(word[:1]) + word[1:])
			}
		}
	}
	return b.String()
}
