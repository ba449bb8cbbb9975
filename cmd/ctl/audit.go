package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// auditKind is the kind of the events that are audit records.
const auditKind = "audit"

func newAudit(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Show who changed what, or was refused it"}
	cmd.AddCommand(newAuditTail(s))
	return cmd
}

func newAuditTail(s *session) *cobra.Command {
	r := &brokerv1.TailAuditRequest{}
	follow := false
	cmd := &cobra.Command{
		Use: "tail", Short: "Show the newest records of all nodes, with -f also those that come, until ctrl-c", Args: exactArgs(),
		Long: "Show the newest records of who changed what, or was refused it, of all nodes: for administrators.\n" +
			"Nodes keep the newest records only, and none over a restart; the log of each node has them all.",
		Example: "  quoratectl audit tail --operation 'user.*'\n  quoratectl audit tail -f --of alice -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.Vhost = s.vhost
			var tail *brokerv1.TailAuditResponse
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
			return s.followAudit(cmd, r, tail.GetCursor())
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.User, "of", "", "only what this user did, or node:ID what a node did by itself")
	f.StringVar(&r.Operation, "operation", "", "such as user.put, with *, ? and [a-z]")
	f.Uint32VarP(&r.Limit, "last", "n", 0, "so many records at most; 0: 100")
	f.BoolVarP(&follow, "follow", "f", false, "go on with those that come, until ctrl-c")
	return cmd
}

// printTail prints records, and on the standard error what is not among them.
func (s *session) printTail(cmd *cobra.Command, tail *brokerv1.TailAuditResponse) error {
	for _, n := range tail.GetSilent() {
		printf(cmd.ErrOrStderr(), "%s does not answer: its records are not here\n", n)
	}
	if n := tail.GetLost(); n > 0 {
		printf(cmd.ErrOrStderr(), "%d older records are not kept any more; the logs of the nodes have them\n", n)
	}
	for _, e := range tail.GetEvents() {
		if err := s.printEvent(cmd, e); err != nil {
			return err
		}
	}
	return nil
}

// followAudit prints what comes behind a cursor.
func (s *session) followAudit(cmd *cobra.Command, r *brokerv1.TailAuditRequest, cursor string) error {
	c, err := s.open(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := s.bound(cmd.Context())
	defer cancel()
	watch := &brokerv1.WatchEventsRequest{
		Vhost: r.GetVhost(), Kinds: []string{auditKind}, User: r.GetUser(), Operation: r.GetOperation(), Cursor: cursor,
	}
	err = c.WatchEvents(ctx, watch, func(events []*brokerv1.Event) error {
		for _, e := range events {
			if err := s.printEvent(cmd, e); err != nil {
				return err
			}
		}
		return nil
	})
	if cmd.Context().Err() != nil {
		return nil // ctrl-c is how it ends
	}
	return err
}

// printAudit prints a record as a line.
func (s *session) printAudit(cmd *cobra.Command, e *brokerv1.Event) {
	a, t := e.GetAudit(), cmd.OutOrStdout()
	at := time.UnixMilli(e.GetAtMs()).UTC().Format("2006-01-02T15:04:05.000Z")
	who := a.GetUser()
	if who == "" {
		who = "-"
	}
	from := a.GetProtocol()
	for _, text := range []string{a.GetMechanism(), a.GetAddress(), a.GetClient()} {
		if text != "" {
			from += " " + text
		}
	}
	object := []string{a.GetObject()}
	if e.GetVhost() != "" && a.GetObject() != "vhost" {
		object = append(object, e.GetVhost())
	}
	if e.GetName() != "" {
		object = append(object, e.GetName())
	}
	printf(t, "%s %s %-8s %-18s %s (%s) %s", at, e.GetNode(), a.GetOutcome(), a.GetOperation(), cell(who), cell(from), cell(strings.Join(object, " ")))
	for _, c := range a.GetChanges() {
		printf(t, " %s", cell(changeText(c)))
	}
	if e.GetCause() != "" {
		printf(t, ": %s", cell(e.GetCause()))
	}
	if e.GetCount() > 0 {
		printf(t, " (%s like this were left out before)", strconv.FormatUint(e.GetCount(), 10))
	}
	printf(t, "\n")
}

func changeText(c *brokerv1.AuditChange) string {
	switch {
	case c.GetBefore() == "":
		return fmt.Sprintf("%s=%s", c.GetField(), c.GetAfter())
	case c.GetAfter() == "":
		return fmt.Sprintf("%s=%s->", c.GetField(), c.GetBefore())
	}
	return fmt.Sprintf("%s=%s->%s", c.GetField(), c.GetBefore(), c.GetAfter())
}
