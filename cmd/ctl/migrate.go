package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newMigrate groups `quoratectl migrate`.
func newMigrate(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Move to Quorate from another broker"}
	cmd.AddCommand(newMigrateRabbitMQ(s))
	return cmd
}

// newMigrateRabbitMQ makes `migrate rabbitmq`. It is a dry run unless --apply is given: the report
// is what users come for first.
func newMigrateRabbitMQ(s *session) *cobra.Command {
	var apply bool
	var ca string
	cmd := &cobra.Command{
		Use: "rabbitmq FILE|URL", Short: "Report how RabbitMQ's definitions would be imported, and with --apply import them",
		Long: "Read RabbitMQ's definitions from a file, the standard input (-) or its management API, and report what will not be imported,\n" +
			"what changes, and what stays the same. Nothing is done unless --apply is given; a repeated command continues where the last one stopped.\n" +
			"Messages are not moved. The exit code is 3 if objects are refused, differ or fail.",
		Example: "  quoratectl migrate rabbitmq definitions.json\n" +
			"  " + rabbitPasswordEnv + "=… quoratectl migrate rabbitmq https://admin@rabbit.example.com:15671 --apply",
		Args: exactArgs("FILE|URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			document, err := s.rabbitDocument(cmd, args[0], ca)
			if err != nil {
				return err
			}
			return s.migrate(cmd, document, apply)
		},
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "import the definitions")
	cmd.Flags().StringVar(&ca, "rabbitmq-ca", "", "PEM file with the authorities of the management API's certificate; default: the system's")
	return cmd
}

// rabbitDocument reads the document from the source in the argument.
func (s *session) rabbitDocument(cmd *cobra.Command, from, ca string) ([]byte, error) {
	if !strings.HasPrefix(from, "http://") && !strings.HasPrefix(from, "https://") {
		return readDocument(cmd, from)
	}
	ctx, cancel := s.bound(cmd.Context())
	defer cancel()
	if u, err := url.Parse(from); err == nil && u.User != nil {
		if _, given := u.User.Password(); given {
			warnOfSecret(cmd, "the URL", rabbitPasswordEnv)
		}
	}
	return fetchDefinitions(ctx, from, ca)
}

// migrate imports, or tries to, and prints the report even of an import that broke off.
func (s *session) migrate(cmd *cobra.Command, document []byte, apply bool) error {
	ctx, c, end, err := s.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	r := report{applied: apply}
	summary, err := c.ImportDefinitions(ctx, client.ImportDefinitionsRequest{
		Document: document, VHost: s.onlyVHost(cmd), DryRun: !apply, Seen: func(done []client.ImportedObject, _ int) { r.add(done) },
	})
	if err = errors.Join(s.printReport(cmd.OutOrStdout(), &r), err); err != nil {
		return err
	}
	err = concludeImport(cmd, summary, !apply)
	if !apply {
		printf(cmd.ErrOrStderr(), "nothing was done; --apply imports it\n")
	}
	return err
}

// severity is how much of an object is lost by the import.
type severity string

// The severities, the worst one first.
const (
	severityLost    severity = "lost"    // the object is missing, or a different one exists
	severityChanged severity = "changed" // a part of it is lost
	severitySame    severity = "same"
)

// report has the objects of a document by severity.
type report struct {
	applied             bool
	lost, changed, same []client.ImportedObject
}

// add sorts imported objects by severity as they come in.
func (r *report) add(done []client.ImportedObject) {
	for _, x := range done {
		switch severityOf(x) {
		case severityLost:
			r.lost = append(r.lost, x)
		case severityChanged:
			r.changed = append(r.changed, x)
		case severitySame:
			r.same = append(r.same, x)
		}
	}
}

// severityOf judges an object by what its owner loses. Skipped without a warning means that there
// was nothing to bring over.
func severityOf(x client.ImportedObject) severity {
	changed := len(x.Warnings) > 0
	switch x.Outcome {
	case client.ImportDifferent, client.ImportRefused, client.ImportFailed:
		return severityLost
	case client.ImportSkipped:
		if changed { // otherwise there was nothing to import
			return severityLost
		}
	default:
		if changed {
			return severityChanged
		}
	}
	return severitySame
}

// reported is an object in JSON and YAML.
type reported struct {
	Severity severity `json:"severity"`
	Outcome  string   `json:"outcome"`
	Kind     string   `json:"kind"`
	VHost    string   `json:"vhost,omitempty"`
	Name     string   `json:"name"`
	Path     string   `json:"path"`
	Reason   string   `json:"reason,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// printReport prints what is lost and what is changed in full, and the rest as counts.
func (s *session) printReport(w io.Writer, r *report) error {
	if s.output != outputTable {
		all := []reported{}
		for _, x := range slices.Concat(r.lost, r.changed, r.same) {
			all = append(all, reported{severityOf(x), string(x.Outcome), x.Kind, x.VHost, x.Name, x.Path, x.Reason, x.Warnings})
		}
		return s.encode(w, all)
	}
	title := "will not be imported"
	if r.applied {
		title = "was not imported"
	}
	for _, part := range []struct {
		title   string
		objects []client.ImportedObject
	}{{title, r.lost}, {"changed", r.changed}} {
		if len(part.objects) == 0 {
			continue
		}
		printf(w, "%s: %s\n", part.title, counted(len(part.objects), "object"))
		if err := printRows(w, []string{"kind", "vhost", "name", "path", "why"}, reportRows(part.objects)...); err != nil {
			return err
		}
		printf(w, "\n")
	}
	printf(w, "unchanged: %s\n", r.sameText())
	return nil
}

// reportRows has a row for each remark about an object.
func reportRows(objects []client.ImportedObject) (rows [][]string) {
	for _, x := range objects {
		head := []string{x.Kind, x.VHost, x.Name, x.Path}
		for _, why := range reasons(x) {
			rows = append(rows, append(slices.Clone(head), why))
			head = make([]string, len(head))
		}
	}
	return rows
}

// sameText counts, by kind, the objects that are imported unchanged.
func (r *report) sameText() string {
	kinds := map[string]int{}
	for _, x := range r.same {
		kinds[x.Kind]++
	}
	text := counted(len(r.same), "object")
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, counted(kinds[k], k))
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

// counted joins a number and a noun; "vhost limits" is a plural already.
func counted(n int, noun string) string {
	switch {
	case n == 1 || noun == "vhost limits":
	case strings.HasSuffix(noun, "y"):
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%s %s", strconv.Itoa(n), noun)
}
