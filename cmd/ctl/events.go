package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// errEnough ends a watch that has seen what was asked for.
var errEnough = errors.New("enough")

// newEvents makes `events`. It ends by --count, by ctrl-c, which is no error, or by a --timeout
// that is given.
func newEvents(s *session) *cobra.Command {
	r := client.WatchEventsRequest{}
	count := 0
	cmd := &cobra.Command{
		Use: "events", Short: "Show events of queues, exchanges, policies and the like, until ctrl-c",
		Long: "Show events of queues, exchanges, bindings, policies and vhosts on all nodes, until ctrl-c.\n" +
			"Nodes keep only the newest events: an event that a node has dropped already is counted as missed.",
		Example: "  quoratectl events --kind queue_full --kind dead_letter_blocked -o json",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, c, end, err := s.begin(cmd)
			if err != nil {
				return err
			}
			defer end()
			r.VHost = s.vhost
			left := count
			err = c.WatchEvents(ctx, r, func(events []client.Event) error {
				for _, e := range events {
					if err := s.printEvent(cmd, e); err != nil {
						return err
					}
					if left--; left == 0 {
						return errEnough
					}
				}
				return nil
			})
			if errors.Is(err, errEnough) || cmd.Context().Err() != nil {
				return nil // ctrl-c is the normal end
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&r.Kinds, "kind", nil, "only events of this kind, such as queue_created, leader_changed or queue_full; repeatable; default: all")
	f.StringVar(&r.Name, "name", "", "name of the queue, exchange or policy, with *, ? and [a-z]")
	f.BoolVar(&r.History, "history", false, "begin with the events that the nodes still keep")
	f.IntVar(&count, "count", 0, "end after this many events; 0: never")
	return cmd
}

// printEvent prints an event as one line, or as one JSON line or YAML document, so that readers
// need not wait for the end.
func (s *session) printEvent(cmd *cobra.Command, e client.Event) error {
	if s.output != outputTable {
		return s.encodeNext(cmd.OutOrStdout(), plain(e))
	}
	if e.Audit != nil {
		s.printAudit(cmd, e)
		return nil
	}
	t := cmd.OutOrStdout()
	at := e.At.UTC().Format("2006-01-02T15:04:05.000Z")
	printf(t, "%s %-22s %s", at, e.Kind, e.Node)
	if e.Name != "" {
		printf(t, " %s %s", e.VHost, e.Name)
	}
	if e.Count > 0 {
		printf(t, " %s", strconv.FormatUint(e.Count, 10))
	}
	for _, text := range []string{e.Detail, e.Cause} {
		if text != "" {
			printf(t, " %s", text)
		}
	}
	printf(t, "\n")
	return nil
}
