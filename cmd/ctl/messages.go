package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newQueueMessages returns the commands for single messages of a queue.
func newQueueMessages(s *session) []*cobra.Command {
	return []*cobra.Command{newPeek(s), newDeleteMessages(s), newMove(s), newRedrive(s)}
}

// filterOptions are the flags that choose messages.
type filterOptions struct {
	client.Filter
	numbers []uint
	headers []string
}

// flags adds the flags that choose messages; those of different kinds must all hold.
func (f *filterOptions) flags(cmd *cobra.Command) {
	cmd.Flags().UintSliceVar(&f.numbers, "number", nil, "messages with these numbers, as peek shows them")
	cmd.Flags().StringSliceVar(&f.MessageIDs, "id", nil, "messages with these message ids")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "messages with this header, as name=value, or a name alone for any value; repeatable")
	cmd.Flags().StringVar(&f.DeathQueue, "death-queue", "", "messages that died in this queue")
	cmd.Flags().StringVar(&f.DeathReason, "death-reason", "", "messages that died for this reason: rejected, expired, maxlen, delivery_limit or queue_deleted")
	cmd.Flags().StringVar(&f.DeathExchange, "death-exchange", "", "messages that had come through this exchange when they died")
}

// complete fills the filter from its flags.
func (f *filterOptions) complete() error {
	for _, n := range f.numbers {
		f.Numbers = append(f.Numbers, uint64(n))
	}
	for _, h := range f.headers {
		if f.Headers == nil {
			f.Headers = client.Table{}
		}
		name, value, given := strings.Cut(h, "=")
		if name == "" {
			return usageError{fmt.Errorf("--header %q has no name", h)}
		}
		f.Headers[name] = nil
		if given {
			f.Headers[name] = parseValue(value)
		}
	}
	return nil
}

// empty reports that the filter chooses all messages.
func (f *filterOptions) empty() bool {
	return len(f.numbers)+len(f.MessageIDs)+len(f.headers) == 0 && f.DeathQueue+f.DeathReason+f.DeathExchange == ""
}

// newPeek makes `queue peek`. Tables are printed page by page; JSON and YAML need the whole list
// before they can be written.
func newPeek(s *session) *cobra.Command {
	r := &client.PeekRequest{}
	f := &filterOptions{}
	part, all := "ready", false
	cmd := &cobra.Command{
		Use: "peek QUEUE", Short: "Show messages without taking them", Args: exactArgs("QUEUE"),
		Example: "  quoratectl queue peek dead --limit 20 --death-reason rejected --bodies",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.complete(); err != nil {
				return err
			}
			var err error
			if r.Part, err = parsePart(part); err != nil {
				return err
			}
			r.VHost, r.Queue, r.Filter = s.vhost, args[0], f.Filter
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				list := []any{}
				err := peekPages(ctx, cmd, c, *r, all, func(page []client.Peeked) error {
					if s.output == outputTable {
						return printPeeked(cmd, page, r.WithBodies)
					}
					for i := range page {
						list = append(list, plainPeeked(&page[i], r.WithBodies))
					}
					return nil
				})
				if err != nil || s.output == outputTable {
					return err
				}
				return s.encode(cmd.OutOrStdout(), list)
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&part, "part", part, "ready, unsettled, backlog or delayed")
	cmd.Flags().Uint32Var(&r.Limit, "limit", 10, "messages per page, at most 1000")
	cmd.Flags().Uint64Var(&r.Skip, "skip", 0, "skip this many messages first")
	cmd.Flags().Uint64Var(&r.FromNumber, "from-number", 0, "only messages with this number or a higher one")
	cmd.Flags().BoolVar(&r.WithBodies, "bodies", false, "show bodies too")
	cmd.Flags().StringVar(&r.PageToken, "page-token", "", "continue where an earlier page ended")
	cmd.Flags().BoolVar(&all, "all", false, "show all pages")
	return cmd
}

// peekPages yields pages: all of them, or up to the first one that has messages.
func peekPages(ctx context.Context, cmd *cobra.Command, c *client.Client, r client.PeekRequest, all bool, each func([]client.Peeked) error) error {
	for {
		page, err := c.Peek(ctx, r)
		if err == nil {
			err = each(page.Messages)
		}
		if err != nil || page.Next == "" {
			return err
		}
		if !all && len(page.Messages) > 0 {
			printf(cmd.ErrOrStderr(), "there may be more: --page-token %s\n", page.Next)
			return nil
		}
		r.PageToken = page.Next
	}
}

// parsePart reads the value of --part.
func parsePart(word string) (client.QueuePart, error) {
	part := client.QueuePart(strings.ToLower(word))
	if !slices.Contains([]client.QueuePart{client.PartReady, client.PartUnsettled, client.PartBacklog, client.PartDelayed}, part) {
		return "", usageError{fmt.Errorf("--part is %q: use ready, unsettled, backlog or delayed", word)}
	}
	return part, nil
}

// printPeeked prints one page as a table. The last column means what the part makes of it: the
// consumer's node, the time of return, or the reason and target.
func printPeeked(cmd *cobra.Command, page []client.Peeked, bodies bool) error {
	header := []string{"number", "age", "bytes", "exchange", "key", "id", "deliveries", "deaths", "state"}
	if bodies {
		header = append(header, "body")
	}
	rows := make([][]string, 0, len(page))
	for _, p := range page {
		var deaths []string
		for _, d := range p.Deaths {
			deaths = append(deaths, fmt.Sprintf("%s %s %d", d.Queue, d.Reason, d.Count))
		}
		state := p.State.Reason + p.State.Destination
		if n := p.State.ConsumerNode; n != "" {
			state = "with a client of " + n
		}
		if due := p.State.Due; !due.IsZero() {
			state = "ready at " + due.Format(time.RFC3339)
		}
		age := time.Since(p.State.At).Round(time.Second)
		row := []string{
			fmt.Sprint(p.State.Number), age.String(), fmt.Sprint(p.State.BodyBytes), p.Exchange, p.RoutingKey, p.MessageID,
			fmt.Sprintf("%d, %d failed", p.AcquiredCount, p.DeliveryCount), strings.Join(deaths, ", "), state,
		}
		if bodies {
			row = append(row, fmt.Sprintf("%q", p.Body))
		}
		rows = append(rows, row)
	}
	return printRows(cmd.OutOrStdout(), header, rows...)
}

// choice holds the flags of commands on chosen messages.
type choice struct {
	*job
	filter filterOptions
	all    bool
	r      client.MessageJob
}

// newChoice adds the flags of commands on chosen messages to cmd.
func newChoice(s *session, cmd *cobra.Command) *choice {
	c := &choice{job: newJob(s, cmd, true)}
	c.filter.flags(cmd)
	cmd.Flags().BoolVar(&c.all, "all", false, "choose all messages; required if no other flag chooses messages")
	cmd.Flags().Uint64Var(&c.r.Limit, "limit", 0, "maximum number of messages; 0: all")
	cmd.Flags().Uint32Var(&c.r.Rate, "rate", 0, "maximum number of messages per second; 0: no limit")
	return c
}

// start fills the request and runs the operation.
func (c *choice) start(cmd *cobra.Command, queue string, start func(context.Context, *client.Client) (client.StartedOperation, error)) error {
	if c.filter.empty() != c.all {
		return usageError{errors.New("choose messages with --number, --id, --header or --death-..., or take --all")}
	}
	if err := c.filter.complete(); err != nil {
		return err
	}
	c.r.VHost, c.r.Queue, c.r.DryRun, c.r.Filter = c.s.vhost, queue, c.dryRun, c.filter.Filter
	return c.run(cmd, start)
}

// newDeleteMessages makes `queue delete-messages`.
func newDeleteMessages(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete-messages QUEUE", Short: "Delete chosen ready messages of a queue", Args: exactArgs("QUEUE"),
		Example: "  quoratectl queue delete-messages dead --header tenant=acme --dry-run",
	}
	c := newChoice(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.start(cmd, args[0], func(ctx context.Context, x *client.Client) (client.StartedOperation, error) {
			return x.DeleteMessages(ctx, c.r)
		})
	}
	return cmd
}

// newMove makes `queue move`. --to-exchange "" is the default exchange, so flags are distinguished by
// whether they were given.
func newMove(s *session) *cobra.Command {
	var toQueue, exchange, key string
	cmd := &cobra.Command{
		Use: "move QUEUE", Short: "Move chosen ready messages to another queue or through an exchange, each once", Args: exactArgs("QUEUE"),
		Example: "  quoratectl queue move dead --to parking --all --rate 100",
	}
	c := newChoice(s, cmd)
	cmd.Flags().StringVar(&toQueue, "to", "", "queue")
	cmd.Flags().StringVar(&exchange, "to-exchange", "", "exchange")
	cmd.Flags().StringVar(&key, "routing-key", "", "routing key for --to-exchange; default: each message's own keys")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := client.MoveMessagesRequest{ToQueue: toQueue}
		if cmd.Flags().Changed("to-exchange") {
			r.ToExchange = &exchange
		}
		if cmd.Flags().Changed("routing-key") {
			r.RoutingKey = &key
		}
		return c.start(cmd, args[0], func(ctx context.Context, x *client.Client) (client.StartedOperation, error) {
			r.Job = c.r // start has filled it
			return x.MoveMessages(ctx, r)
		})
	}
	return cmd
}

// newRedrive makes `queue redrive`.
func newRedrive(s *session) *cobra.Command {
	toExchange := false
	cmd := &cobra.Command{
		Use: "redrive QUEUE", Short: "Move chosen dead letters back to the queues where they first died, each once", Args: exactArgs("QUEUE"),
		Example: "  quoratectl queue redrive dead --death-queue orders --rate 50",
	}
	c := newChoice(s, cmd)
	cmd.Flags().BoolVar(&toExchange, "to-exchange", false, "send them through the exchanges that they came from, instead of straight to the queues")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.start(cmd, args[0], func(ctx context.Context, x *client.Client) (client.StartedOperation, error) {
			return x.RedriveMessages(ctx, client.RedriveMessagesRequest{Job: c.r, ToExchange: toExchange})
		})
	}
	return cmd
}
