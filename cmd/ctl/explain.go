package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

func newExplain(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "explain", Short: "Tell where messages go, and why"}
	cmd.AddCommand(newExplainRouting(s), newExplainDeadLetter(s))
	return cmd
}

func newExplainRouting(s *session) *cobra.Command {
	var keys, headers []string
	cmd := &cobra.Command{
		Use: "routing EXCHANGE", Short: `Tell to which queues a message would go, by which bindings, and what came near; "" is the default exchange`,
		Example: "  quoratectl explain routing orders -k order.new.eu --header kind=order", Args: exactArgs("EXCHANGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			table, err := parseArguments(headers)
			if err != nil {
				return err
			}
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				r, err := c.ExplainRouting(ctx, s.vhost, args[0], keys, table)
				if err != nil {
					return err
				}
				w := cmd.OutOrStdout()
				if s.output != outputTable {
					return s.encode(w, plain(r))
				}
				printRouted(w, "routed to", r.GetQueues())
				printSteps(w, r.GetSteps())
				return nil
			})
		},
	}
	cmd.Flags().StringArrayVarP(&keys, "routing-key", "k", nil, "routing key, then those of CC and BCC; repeatable")
	cmd.Flags().StringArrayVar(&headers, "header", nil, "name=value; repeatable")
	return cmd
}

func newExplainDeadLetter(s *session) *cobra.Command {
	r := &brokerv1.ExplainDeadLetterRequest{}
	part := "ready"
	cmd := &cobra.Command{
		Use: "dead-letter QUEUE", Short: "Tell where a dead letter of a queue would go, or why nowhere", Args: exactArgs("QUEUE"),
		Example: "  quoratectl explain dead-letter orders --reason expired",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			r.Vhost, r.Queue = s.vhost, args[0]
			if r.Part, err = parsePart(part); err != nil {
				return err
			}
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				out, err := c.ExplainDeadLetter(ctx, r)
				if err != nil {
					return err
				}
				w := cmd.OutOrStdout()
				if s.output != outputTable {
					return s.encode(w, plain(out))
				}
				printDeadLetter(w, out)
				return nil
			})
		},
	}
	cmd.Flags().Uint64Var(&r.Number, "number", 0, "of a message in the queue, as peek shows it; default: any message")
	cmd.Flags().StringVar(&part, "part", part, "where the message is: ready, unsettled, backlog or delayed")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "rejected (default), expired, maxlen, delivery_limit or queue_deleted")
	cmd.Flags().StringArrayVarP(&r.RoutingKeys, "routing-key", "k", nil, "keys of the message, without --number; default: the queue's name")
	return cmd
}

func printDeadLetter(w io.Writer, r *brokerv1.ExplainDeadLetterResponse) {
	printf(w, "strategy: %s\n", r.GetStrategy())
	printSettings(w, "", r.GetSettings())
	for _, text := range r.GetWarnings() {
		printf(w, "warning: %s\n", text)
	}
	if len(r.GetTargets()) == 0 {
		printf(w, "goes nowhere (%s): %s\n", r.GetCause(), r.GetWhy())
	} else {
		printf(w, "exchange %q, keys %q\n", r.GetExchange(), r.GetRoutingKeys())
		printRouted(w, "goes to", r.GetTargets())
	}
	if len(r.GetCyclic()) > 0 {
		printf(w, "left out, as it would go round: %s\n", strings.Join(r.GetCyclic(), ", "))
	}
	printSteps(w, r.GetSteps())
}

func printRouted(w io.Writer, what string, queues []*brokerv1.RoutedQueue) {
	if len(queues) == 0 {
		printf(w, "%s no queue\n", what)
	}
	for _, q := range queues {
		printf(w, "%s queue %q", what, q.GetName())
		for _, p := range [...]struct{ kind, name string }{{"policy", q.GetPolicy()}, {"operator policy", q.GetOperatorPolicy()}} {
			if p.name != "" {
				printf(w, ", %s %q", p.kind, p.name)
			}
		}
		printf(w, "\n")
		for _, b := range q.GetPath() {
			printf(w, "  by %s\n", b)
		}
		printSettings(w, "  ", q.GetSettings())
	}
}

func printSettings(w io.Writer, indent string, all []*brokerv1.SettingSource) {
	for _, x := range all {
		printf(w, "%s%s = %s (%s)\n", indent, x.GetArgument(), x.GetValue(), x.GetSource())
	}
}

func printSteps(w io.Writer, steps []*brokerv1.RoutingStep) {
	for _, s := range steps {
		if s.GetMissing() {
			printf(w, "exchange %q does not exist; reached by %s\n", s.GetExchange(), s.GetVia())
			continue
		}
		about := s.GetType()
		if s.GetVia() != "" {
			about += "; reached by " + s.GetVia()
		}
		printf(w, "exchange %q (%s): %s\n", s.GetExchange(), about, fmt.Sprintf("%d bindings match, %d do not", len(s.GetTaken()), s.GetMissesTotal()))
		for _, m := range s.GetMisses() {
			printf(w, "  not %s: %s\n", m.GetBinding(), m.GetWhy())
		}
	}
}
