package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// errEnough ends a watch that has seen as many events as were asked for.
var errEnough = errors.New("enough")

func newEvents(s *session) *cobra.Command {
	r := &brokerv1.WatchEventsRequest{}
	count := 0
	cmd := &cobra.Command{
		Use: "events", Short: "Show what happens to queues, exchanges, policies and the like, until ctrl-c",
		Long: "Show what happens to queues, exchanges, bindings, policies and vhosts on all nodes, until ctrl-c.\n" +
			"Nodes keep the newest events only: one that was not kept long enough is counted as missed.",
		Example: "  quoratectl events --kind queue_full --kind dead_letter_blocked -o json",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := s.bound(cmd.Context())
			defer cancel()
			r.Vhost = s.vhost
			left := count
			err = c.WatchEvents(ctx, r, func(events []*brokerv1.Event) error {
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
				return nil // ctrl-c is how it ends
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&r.Kinds, "kind", nil, "such as queue_created, leader_changed or queue_full; repeatable; all if none")
	f.StringVar(&r.Name, "name", "", "of the queue, exchange or policy, with *, ? and [a-z]")
	f.BoolVar(&r.History, "history", false, "begin with what the nodes still have")
	f.IntVar(&count, "count", 0, "end after so many; 0: never")
	return cmd
}

func (s *session) printEvent(cmd *cobra.Command, e *brokerv1.Event) error {
	if s.output != outputTable {
		return s.encodeNext(cmd.OutOrStdout(), plain(e))
	}
	if e.GetAudit() != nil {
		s.printAudit(cmd, e)
		return nil
	}
	t := cmd.OutOrStdout()
	at := time.UnixMilli(e.GetAtMs()).UTC().Format("2006-01-02T15:04:05.000Z")
	printf(t, "%s %-22s %s", at, e.GetKind(), e.GetNode())
	if e.GetName() != "" {
		printf(t, " %s %s", e.GetVhost(), e.GetName())
	}
	if e.GetCount() > 0 {
		printf(t, " %s", strconv.FormatUint(e.GetCount(), 10))
	}
	for _, text := range []string{e.GetDetail(), e.GetCause()} {
		if text != "" {
			printf(t, " %s", text)
		}
	}
	printf(t, "\n")
	return nil
}
