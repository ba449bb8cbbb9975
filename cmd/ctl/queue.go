package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newQueue groups `quoratectl queue`.
func newQueue(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "queue", Aliases: []string{"queues"}, Short: "Declare, show, move and remove queues"}
	cmd.AddCommand(newQueueDeclare(s), newQueueList(s), newQueueShow(s), newQueueDelete(s), newQueuePurge(s), newQueueRetryDelayed(s))
	cmd.AddCommand(newQueueMembers(s)...)
	cmd.AddCommand(newQueueMessages(s)...)
	return cmd
}

// newQueueDeclare makes `queue declare`. An exclusive queue ends with its connection, so the
// command then waits until it is interrupted.
func newQueueDeclare(s *session) *cobra.Command {
	var arguments []string
	var q client.Queue
	cmd := &cobra.Command{
		Use:     "declare QUEUE",
		Short:   "Create a queue unless it exists",
		Example: "  quoratectl queue declare orders -x x-max-length=1000 -x x-dead-letter-exchange=",
		Args:    exactArgs("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			table, err := parseArguments(arguments)
			if err != nil {
				return err
			}
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				q.VHost, q.Name, q.Arguments = s.vhost, args[0], table
				r, err := c.DeclareQueue(ctx, q)
				if err != nil {
					return err
				}
				row := []string{r.Name, fmt.Sprint(r.Created), fmt.Sprint(r.MessageCount), fmt.Sprint(r.ConsumerCount)}
				err = s.printOne(cmd.OutOrStdout(), []string{"queue", "created", "ready", "consumers"}, row, r)
				if q.Exclusive && err == nil {
					return holdConnection(cmd.Context(), c)
				}
				return err
			})
		},
	}
	cmd.Flags().StringSliceVarP(&arguments, "argument", "x", nil, "name=value, repeatable")
	cmd.Flags().BoolVar(&q.Transient, "transient", false, "delete it when the process of the answering node ends; makes it a classic queue")
	cmd.Flags().BoolVar(&q.AutoDelete, "auto-delete", false, "delete it with its last consumer; makes it a classic queue")
	cmd.Flags().BoolVar(&q.Exclusive, "exclusive", false, "reserve it for this command, which waits until it is interrupted and then deletes the queue; makes it a classic queue")
	return cmd
}

// holdConnection waits until the user interrupts, or the exclusive queue is lost.
func holdConnection(ctx context.Context, c *client.Client) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.ConnectionLost():
		return errors.New("the connection was lost, and the queue with it")
	}
}

// queueRow shows the figures of the leader; a queue without one shows zeros.
func queueRow(q client.QueueInfo) []string {
	n := q.Figures()
	return []string{
		q.VHost, q.Name, q.State, q.Leader, strings.Join(q.Online, ","), fmt.Sprint(n.MessagesReady),
		fmt.Sprint(n.MessagesUnacknowledged), fmt.Sprint(n.MessagesDelayed), fmt.Sprint(n.MessagesDLX), fmt.Sprint(n.Consumers),
	}
}

func queueHeader() []string {
	return []string{"vhost", "queue", "state", "leader", "online", "ready", "unacked", "delayed", "backlog", "consumers"}
}

// newQueueList makes `queue list`.
func newQueueList(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List queues", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				queues, err := client.Collect(c.Queues(ctx, client.ListQueuesRequest{VHost: s.vhost, WithStats: true}))
				if err != nil {
					return err
				}
				return printList(s, cmd.OutOrStdout(), queueHeader(), queues, queueRow)
			})
		},
	}
}

// newQueueShow makes `queue show`.
func newQueueShow(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "show QUEUE", Short: "Show a queue; --output json shows every figure", Args: exactArgs("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				q, err := c.GetQueue(ctx, client.QueueRef{VHost: s.vhost, Name: args[0]})
				if err != nil {
					return err
				}
				if err := s.printOne(cmd.OutOrStdout(), queueHeader(), queueRow(q), q); err != nil || s.output != outputTable {
					return err
				}
				if q.DeclaredBy != "" {
					printf(cmd.OutOrStdout(), "%s\n", declarerLine(q))
				}
				for _, line := range waitingLines(q.Stats) {
					printf(cmd.OutOrStdout(), "%s\n", line)
				}
				return nil
			})
		},
	}
}

// declarerLine names the user that declared a queue, and whether the queue counts towards that
// user's limits.
func declarerLine(q client.QueueInfo) string {
	if q.CountsForDeclarer {
		return fmt.Sprintf("declared by user %q", q.DeclaredBy)
	}
	return fmt.Sprintf("declared by user %q; it counts towards no user's limits, because the user was deleted since", q.DeclaredBy)
}

// waitingLines describes why dead letters of a queue wait, and since when.
func waitingLines(s *client.QueueStats) (lines []string) {
	if s == nil {
		return nil // no leader has reported
	}
	waiting := s.DeadLettersWaiting
	for _, cause := range slices.Sorted(maps.Keys(waiting)) {
		lines = append(lines, fmt.Sprintf("%d dead letters wait: %s", waiting[cause], cause))
	}
	if text := s.LastDeadLetterError; text != "" {
		lines = append(lines, fmt.Sprintf("the oldest for %s: %s", s.OldestDeadLetterAge.Round(time.Second), text))
	}
	return lines
}

// newQueueDelete makes `queue delete`. A queue that is drain-deleting is deleted without help; waiting for it
// only informs the user and may be cut short.
func newQueueDelete(s *session) *cobra.Command {
	r := client.DeleteQueueRequest{}
	var noWait bool
	cmd := &cobra.Command{
		Use: "delete QUEUE", Short: "Delete a queue and its messages", Args: exactArgs("QUEUE"),
		Long: "Delete a queue and its messages. With x-on-delete = dead-letter the messages are dead-lettered first: the command shows the\n" +
			"progress and ends when the queue is gone. If it is interrupted, or with --no-wait, the deletion continues without it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			r.VHost, r.Name = s.vhost, args[0]
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				out, err := c.DeleteQueue(ctx, r)
				if err != nil {
					return err
				}
				if out.DrainDeleting && !noWait {
					gone, err := s.awaitGone(cmd.Context(), c, r.VHost, r.Name, cmd.ErrOrStderr())
					if err != nil {
						return err
					}
					out.DrainDeleting = !gone
				}
				row := []string{
					fmt.Sprint(out.Ready), fmt.Sprint(out.Unsettled), fmt.Sprint(out.Delayed), fmt.Sprint(out.Backlog),
					fmt.Sprint(!out.DrainDeleting),
				}
				return s.printOne(cmd.OutOrStdout(), []string{"ready", "unacked", "delayed", "backlog", "gone"}, row, out)
			})
		},
	}
	cmd.Flags().BoolVar(&r.IfUnused, "if-unused", false, "refuse while there are consumers")
	cmd.Flags().BoolVar(&r.IfEmpty, "if-empty", false, "refuse while there are messages")
	cmd.Flags().BoolVar(&r.Discard, "discard", false, "drop its messages at once, even if x-on-delete asks to dead-letter them")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for messages that are dead-lettered first")
	return s.dryRun(cmd, s.queueLoss)
}

// deletePoll is the time between two checks of a queue that is being deleted.
const deletePoll = 500 * time.Millisecond

// awaitGone shows the progress of a queue's deletion until the queue is gone; false if the user
// interrupts.
func (s *session) awaitGone(ctx context.Context, c *client.Client, vhost, name string, progress io.Writer) (bool, error) {
	last := ""
	for {
		one, cancel := context.WithTimeout(ctx, s.timeout)
		q, err := c.GetQueue(one, client.QueueRef{VHost: vhost, Name: name})
		cancel()
		switch {
		case client.ClassOf(err) == client.NotFound || err == nil && q.State != stateDeleting && q.Stats != nil:
			return true, nil // gone, or created again meanwhile
		case ctx.Err() != nil:
			printf(progress, "the deletion continues: see quoratectl queue show %s\n", name)
			return false, nil //nolint:nilerr // the user's interrupt is what ended the look
		case err != nil:
			return false, err
		}
		n := q.Figures()
		line := fmt.Sprintf("deleting: %d messages left, %d of them wait to be dead-lettered",
			n.MessagesReady+n.MessagesDelayed+n.MessagesDLX, n.MessagesDLX)
		if why := n.LastDeadLetterError; why != "" {
			line += ": " + why
		}
		if line != last {
			printf(progress, "%s\n", line)
			last = line
		}
		select {
		case <-ctx.Done():
		case <-time.After(deletePoll):
		}
	}
}

// stateDeleting is the state of a queue that dead-letters its messages before it is deleted.
const stateDeleting = "deleting"

// messageCount is a number of messages in JSON and YAML.
type messageCount struct {
	Messages uint64 `api:"messages"`
}

// newQueuePurge makes `queue purge`.
func newQueuePurge(s *session) *cobra.Command {
	return s.dryRun(&cobra.Command{
		Use: "purge QUEUE", Short: "Remove ready and delayed messages and the dead-letter backlog", Args: exactArgs("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				n, err := c.PurgeQueue(ctx, client.QueueRef{VHost: s.vhost, Name: args[0]})
				if err != nil {
					return err
				}
				return s.printOne(cmd.OutOrStdout(), []string{"purged"}, []string{fmt.Sprint(n)}, messageCount{n})
			})
		},
	}, s.queueLoss)
}

// newQueueRetryDelayed makes `queue retry-delayed` (DR-6).
func newQueueRetryDelayed(s *session) *cobra.Command {
	limit := uint64(0)
	cmd := &cobra.Command{
		Use:     "retry-delayed QUEUE",
		Short:   "Make delayed messages ready at once, in the order of their due times",
		Example: "  quoratectl queue retry-delayed orders --limit 100",
		Args:    exactArgs("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				n, err := c.RetryDelayed(ctx, client.RetryDelayedRequest{VHost: s.vhost, Name: args[0], Limit: limit})
				if err != nil {
					return err
				}
				return s.printOne(cmd.OutOrStdout(), []string{"ready"}, []string{fmt.Sprint(n)}, messageCount{n})
			})
		},
	}
	cmd.Flags().Uint64Var(&limit, "limit", 0, "maximum number of messages; 0: all that are delayed now")
	return cmd
}
