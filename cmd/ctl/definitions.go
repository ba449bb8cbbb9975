package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// definitionsMode is the mode of an exported file: it has password hashes.
const definitionsMode = 0o600

// newDefinitions groups `quoratectl definitions`.
func newDefinitions(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "definitions", Aliases: []string{"definition"},
		Short: "Export and import everything except messages as one JSON document",
	}
	cmd.AddCommand(newDefinitionsExport(s), newDefinitionsImport(s))
	return cmd
}

// newDefinitionsExport makes `definitions export`. The file holds password hashes, hence
// definitionsMode.
func newDefinitionsExport(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "export [FILE]", Short: "Write users, vhosts, policies, queues, exchanges and bindings, under RabbitMQ's names",
		Long: "Write everything in the cluster except messages to a file or the standard output. With --vhost, only what is in that vhost, without users;\n" +
			"the vhost of a context does not count.",
		Args: optionalArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				document, err := c.ExportDefinitions(ctx, s.onlyVHost(cmd))
				if err != nil {
					return err
				}
				if len(args) == 0 || args[0] == "-" {
					_, err = cmd.OutOrStdout().Write(document)
					return err
				}
				return os.WriteFile(args[0], document, definitionsMode)
			})
		},
	}
}

// newDefinitionsImport makes `definitions import`. It may run for long, so only a --timeout that is
// given bounds it. What was imported before an error is printed nevertheless.
func newDefinitionsImport(s *session) *cobra.Command {
	var dryRun, all bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Create what a document describes and the cluster lacks; - reads the standard input",
		Long: "Create what a document describes and the cluster lacks. What exists with other properties stays as it is and is reported.\n" +
			"What only RabbitMQ has becomes its nearest equivalent and is reported; see also: quoratectl migrate.\n" +
			"A malformed document changes nothing. The exit code is 3 if some objects differ, are refused or fail.\n" +
			"With --vhost, only objects of that vhost are imported; a document of a single vhost is imported into it. The vhost of\n" +
			"a context does not count.",
		Example: "  quoratectl definitions import rabbitmq.json --dry-run",
		Args:    exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			document, err := readDocument(cmd, args[0])
			if err != nil {
				return err
			}
			ctx, c, end, err := s.begin(cmd)
			if err != nil {
				return err
			}
			defer end()
			var shown []client.ImportedObject
			show := func(done []client.ImportedObject, _ int) {
				for _, x := range done {
					if all || worthPrinting(x) || dryRun && x.Outcome == client.ImportCreated {
						shown = append(shown, x)
					}
				}
			}
			summary, err := c.ImportDefinitions(ctx, client.ImportDefinitionsRequest{Document: document, VHost: s.onlyVHost(cmd), DryRun: dryRun, Seen: show})
			err = errors.Join(s.printImported(cmd.OutOrStdout(), shown, summary), err)
			if err != nil {
				return err
			}
			return concludeImport(cmd, summary, dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be done and change nothing")
	cmd.Flags().BoolVar(&all, "all", false, "also list objects that are created or exist already")
	return cmd
}

// readDocument reads a file, or the standard input for "-". A file that cannot be read is a mistake
// on the command line.
func readDocument(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	document, err := os.ReadFile(name)
	if err != nil {
		err = usageError{err}
	}
	return document, err
}

// worthPrinting reports whether an object is missing, or differs from the document.
func worthPrinting(x client.ImportedObject) bool {
	switch x.Outcome {
	case client.ImportDifferent, client.ImportRefused, client.ImportFailed:
		return true
	case client.ImportUnchanged:
		return false
	default:
		return len(x.Warnings) > 0
	}
}

// printImported prints the objects that are worth printing; a table without rows is left out.
func (s *session) printImported(w io.Writer, objects []client.ImportedObject, n client.ImportSummary) error {
	switch {
	case s.output != outputTable:
		return s.encode(w, map[string]any{"objects": plainAll(objects), "summary": plain(n)})
	case len(objects) == 0:
		return nil
	}
	header := []string{"outcome", "kind", "vhost", "name", "path", "reason"}
	return printList(s, w, header, objects, func(x client.ImportedObject) []string {
		return []string{string(x.Outcome), x.Kind, x.VHost, x.Name, x.Path, strings.Join(reasons(x), "; ")}
	})
}

// reasons are why an object was not created, or not as in the document.
func reasons(x client.ImportedObject) []string {
	if x.Reason == "" {
		return x.Warnings
	}
	return append([]string{x.Reason}, x.Warnings...)
}

// concludeImport prints the counts and reports by its error whether every object is in place.
func concludeImport(cmd *cobra.Command, n client.ImportSummary, dryRun bool) error {
	would := ""
	if dryRun {
		would = "dry run: "
	}
	printf(cmd.ErrOrStderr(), "%s%d created, %d unchanged, %d different, %d refused, %d skipped, %d failed\n", would,
		n.Created, n.Unchanged, n.Different, n.Refused, n.Skipped, n.Failed)
	if left := n.Different + n.Refused + n.Failed; left > 0 {
		return partDoneError{fmt.Errorf("%d objects of the document are not in place; see above", left)}
	}
	return nil
}
