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
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// definitionsMode is that of a file that is written: it has hashes of passwords.
const definitionsMode = 0o600

func newDefinitions(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "definitions", Aliases: []string{"definition"},
		Short: "Export and import all but messages as one JSON document",
	}
	cmd.AddCommand(newDefinitionsExport(s), newDefinitionsImport(s))
	return cmd
}

func newDefinitionsExport(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "export [FILE]", Short: "Write users, vhosts, policies, queues, exchanges and bindings, under RabbitMQ's names",
		Long: "Write what the cluster has, messages apart, to a file or the standard output. With --vhost, what that vhost has, without users.",
		Args: optionalArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				document, err := c.ExportDefinitions(ctx, s.vhost)
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

func newDefinitionsImport(s *session) *cobra.Command {
	o := &brokerv1.ImportOptions{}
	var all bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Make what a document describes and the cluster does not have; - reads the standard input",
		Long: "Make what a document describes and the cluster does not have. What exists with other properties is left and reported.\n" +
			"What RabbitMQ has and this broker has not becomes what comes nearest, and is reported; see also: quoratectl migrate.\n" +
			"Nothing is taken of a document whose form is wrong. Ends with exit code 3 if some objects differ, are refused or failed.\n" +
			"With --vhost only what lies in that vhost is taken, and all of a document of a single vhost goes there.",
		Example: "  quoratectl definitions import rabbitmq.json --dry-run",
		Args:    exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			document, err := readDocument(cmd, args[0])
			if err != nil {
				return err
			}
			c, err := s.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := s.bound(cmd.Context())
			defer cancel()
			o.Vhost = s.vhost
			var shown []*brokerv1.ImportedObject
			summary, err := c.ImportDefinitions(ctx, document, o, func(done []*brokerv1.ImportedObject, _ int) {
				for _, x := range done {
					if all || worthTelling(x) || o.GetDryRun() && x.GetOutcome() == brokerv1.ImportOutcome_IMPORT_OUTCOME_CREATED {
						shown = append(shown, x)
					}
				}
			})
			err = errors.Join(s.printImported(cmd.OutOrStdout(), shown, summary), err)
			if err != nil {
				return err
			}
			return concludeImport(cmd, summary, o.GetDryRun())
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "print what would be done and do nothing")
	cmd.Flags().BoolVar(&all, "all", false, "also list what is made and what is there already")
	return cmd
}

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

// worthTelling tells whether an object is not in place, or not as the document has it.
func worthTelling(x *brokerv1.ImportedObject) bool {
	switch x.GetOutcome() {
	case brokerv1.ImportOutcome_IMPORT_OUTCOME_DIFFERENT, brokerv1.ImportOutcome_IMPORT_OUTCOME_REFUSED, brokerv1.ImportOutcome_IMPORT_OUTCOME_FAILED:
		return true
	case brokerv1.ImportOutcome_IMPORT_OUTCOME_UNCHANGED:
		return false
	default:
		return len(x.GetWarnings()) > 0
	}
}

func (s *session) printImported(w io.Writer, objects []*brokerv1.ImportedObject, n *brokerv1.ImportSummary) error {
	switch {
	case s.output != outputTable:
		return s.encode(w, map[string]any{"objects": plainAll(objects), "summary": plain(n)})
	case len(objects) == 0:
		return nil
	}
	header := []string{"outcome", "kind", "vhost", "name", "path", "reason"}
	return printList(s, w, header, objects, func(x *brokerv1.ImportedObject) []string {
		return []string{outcomeName(x), x.GetKind(), x.GetVhost(), x.GetName(), x.GetPath(), strings.Join(reasons(x), "; ")}
	})
}

// outcomeName is such as "created".
func outcomeName(x *brokerv1.ImportedObject) string {
	return strings.ToLower(strings.TrimPrefix(x.GetOutcome().String(), "IMPORT_OUTCOME_"))
}

// reasons say why an object is not made, or not as the document has it.
func reasons(x *brokerv1.ImportedObject) []string {
	if x.GetReason() == "" {
		return x.GetWarnings()
	}
	return append([]string{x.GetReason()}, x.GetWarnings()...)
}

// concludeImport prints the counts and tells by the exit code whether all is in place.
func concludeImport(cmd *cobra.Command, n *brokerv1.ImportSummary, dryRun bool) error {
	would := ""
	if dryRun {
		would = "dry run: "
	}
	printf(cmd.ErrOrStderr(), "%s%d created, %d unchanged, %d different, %d refused, %d skipped, %d failed\n", would,
		n.GetCreated(), n.GetUnchanged(), n.GetDifferent(), n.GetRefused(), n.GetSkipped(), n.GetFailed())
	if left := n.GetDifferent() + n.GetRefused() + n.GetFailed(); left > 0 {
		return partDoneError{fmt.Errorf("%d objects of the document are not in place; see above", left)}
	}
	return nil
}
