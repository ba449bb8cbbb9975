package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// auditKind is the kind of events that are audit records.
const auditKind = "audit"

// newAudit groups `quoratectl audit`.
func newAudit(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Show which user changed what, and which changes were refused"}
	cmd.AddCommand(newAuditTail(s))
	return cmd
}

// newAuditTail makes `audit tail`. --timeout bounds the first answer; with -f the command then
// follows from the cursor of that answer, so nothing falls between.
func newAuditTail(s *session) *cobra.Command {
	r := client.TailAuditRequest{}
	follow := false
	cmd := &cobra.Command{
		Use: "tail", Short: "Show the newest records of all nodes; with -f also new ones as they come, until ctrl-c", Args: exactArgs(),
		Long: "Show the newest audit records of all nodes: which user changed what, and which changes were refused. Needs the tag administrator.\n" +
			"Nodes keep only the newest records, and none over a restart; the log of each node has all of them.",
		Example: "  quoratectl audit tail --operation 'user.*'\n  quoratectl audit tail -f --of alice -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.VHost = s.vhost
			var tail client.AuditTail
			err := s.with(cmd, func(ctx context.Context, c *client.Client) (err error) {
				tail, err = c.TailAudit(ctx, r)
				return err
			})
			if err != nil {
				return err
			}
			if err := s.printTail(cmd, tail); err != nil || !follow {
				return err
			}
			return s.followAudit(cmd, r, tail.Cursor)
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.User, "of", "", "only what this user did; node:ID for what a node did by itself")
	f.StringVar(&r.Operation, "operation", "", "such as user.put, with *, ? and [a-z]")
	f.Uint32VarP(&r.Limit, "last", "n", 0, "maximum number of records; 0: 100")
	f.BoolVarP(&follow, "follow", "f", false, "then follow new records, until ctrl-c")
	return cmd
}

// printTail prints records, and reports on standard error which ones are missing.
func (s *session) printTail(cmd *cobra.Command, tail client.AuditTail) error {
	for _, n := range tail.Silent {
		printf(cmd.ErrOrStderr(), "%s does not answer: its records are missing\n", n)
	}
	if n := tail.Lost; n > 0 {
		printf(cmd.ErrOrStderr(), "%d older records are not kept any more; the logs of the nodes have them\n", n)
	}
	for _, e := range tail.Events {
		if err := s.printEvent(cmd, e); err != nil {
			return err
		}
	}
	return nil
}

// followAudit prints the records after a cursor.
func (s *session) followAudit(cmd *cobra.Command, r client.TailAuditRequest, cursor string) error {
	ctx, c, end, err := s.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	watch := client.WatchEventsRequest{
		VHost: r.VHost, Kinds: []string{auditKind}, User: r.User, Operation: r.Operation, Cursor: cursor,
	}
	err = c.WatchEvents(ctx, watch, func(events []client.Event) error {
		for _, e := range events {
			if err := s.printEvent(cmd, e); err != nil {
				return err
			}
		}
		return nil
	})
	if cmd.Context().Err() != nil {
		return nil // ctrl-c is the normal end
	}
	return err
}

// printAudit prints a record as one line.
func (s *session) printAudit(cmd *cobra.Command, e client.Event) {
	a, t := e.Audit, cmd.OutOrStdout()
	at := e.At.UTC().Format("2006-01-02T15:04:05.000Z")
	who := a.User
	if who == "" {
		who = "-"
	}
	from := a.Protocol
	for _, text := range []string{a.Mechanism, a.Address, a.Client} {
		if text != "" {
			from += " " + text
		}
	}
	object := []string{a.Object}
	if e.VHost != "" && a.Object != "vhost" {
		object = append(object, e.VHost)
	}
	if e.Name != "" {
		object = append(object, e.Name)
	}
	printf(t, "%s %s %-8s %-18s %s (%s) %s", at, e.Node, a.Outcome, a.Operation, cell(who), cell(from), cell(strings.Join(object, " ")))
	for _, c := range a.Changes {
		printf(t, " %s", cell(changeText(c)))
	}
	if e.Cause != "" {
		printf(t, ": %s", cell(e.Cause))
	}
	if e.Count > 0 {
		printf(t, " (%s like this were left out before)", strconv.FormatUint(e.Count, 10))
	}
	printf(t, "\n")
}

// changeText shows a change as field=before->after and leaves out the side that is empty.
func changeText(c client.AuditChange) string {
	switch {
	case c.Before == "":
		return fmt.Sprintf("%s=%s", c.Field, c.After)
	case c.After == "":
		return fmt.Sprintf("%s=%s->", c.Field, c.Before)
	}
	return fmt.Sprintf("%s=%s->%s", c.Field, c.Before, c.After)
}
