package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newExplain groups `quoratectl explain`.
func newExplain(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "explain", Short: "Explain where messages go, and why"}
	cmd.AddCommand(newExplainRouting(s), newExplainDeadLetter(s))
	return cmd
}

// newExplainRouting makes `explain routing` (G-20).
func newExplainRouting(s *session) *cobra.Command {
	var keys, headers []string
	cmd := &cobra.Command{
		Use: "routing EXCHANGE", Short: `Explain to which queues a message would go, by which bindings, and which bindings almost matched; "" is the default exchange`,
		Example: "  quoratectl explain routing orders -k order.new.eu --header kind=order", Args: exactArgs("EXCHANGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			table, err := parseArguments(headers)
			if err != nil {
				return err
			}
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				r, err := c.ExplainRouting(ctx, client.ExplainRoutingRequest{VHost: s.vhost, Exchange: args[0], RoutingKeys: keys, Headers: table})
				if err != nil {
					return err
				}
				w := cmd.OutOrStdout()
				if s.output != outputTable {
					return s.encode(w, plain(r))
				}
				printRouted(w, "routed to", r.Queues)
				printSteps(w, r.Steps)
				return nil
			})
		},
	}
	cmd.Flags().StringArrayVarP(&keys, "routing-key", "k", nil, "routing key, then those of CC and BCC; repeatable")
	cmd.Flags().StringArrayVar(&headers, "header", nil, "name=value; repeatable")
	return cmd
}

// newExplainDeadLetter makes `explain dead-letter`. Without --number it explains a message made up
// of the other flags.
func newExplainDeadLetter(s *session) *cobra.Command {
	r := client.ExplainDeadLetterRequest{}
	part := "ready"
	cmd := &cobra.Command{
		Use: "dead-letter QUEUE", Short: "Explain where a dead letter of a queue would go, or why it goes nowhere", Args: exactArgs("QUEUE"),
		Example: "  quoratectl explain dead-letter orders --reason expired",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			r.VHost, r.Queue = s.vhost, args[0]
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
	cmd.Flags().Uint64Var(&r.Number, "number", 0, "number of a message in the queue, as peek shows it; default: any message")
	cmd.Flags().StringVar(&part, "part", part, "part of the queue that holds the message: ready, unsettled, backlog or delayed")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "reason: rejected (default), expired, maxlen, delivery_limit or queue_deleted")
	cmd.Flags().StringArrayVarP(&r.RoutingKeys, "routing-key", "k", nil, "routing keys of the message, without --number; default: the queue's name")
	return cmd
}

// printDeadLetter prints the settings first, then the targets or why there are none, then the way
// there.
func printDeadLetter(w io.Writer, r client.DeadLetterExplained) {
	printf(w, "strategy: %s\n", r.Strategy)
	printSettings(w, "", r.Settings)
	for _, text := range r.Warnings {
		printf(w, "warning: %s\n", text)
	}
	if len(r.Targets) == 0 {
		printf(w, "goes nowhere (%s): %s\n", r.Cause, r.Why)
	} else {
		printf(w, "exchange %q, keys %q\n", r.Exchange, r.RoutingKeys)
		printRouted(w, "goes to", r.Targets)
	}
	if len(r.Cyclic) > 0 {
		printf(w, "left out because of a cycle: %s\n", strings.Join(r.Cyclic, ", "))
	}
	printSteps(w, r.Steps)
}

// printRouted prints each queue with its policies, the bindings that led to it, and its settings.
func printRouted(w io.Writer, what string, queues []client.RoutedQueue) {
	if len(queues) == 0 {
		printf(w, "%s no queue\n", what)
	}
	for _, q := range queues {
		printf(w, "%s queue %q", what, q.Name)
		for _, p := range [...]struct{ kind, name string }{{"policy", q.Policy}, {"operator policy", q.OperatorPolicy}} {
			if p.name != "" {
				printf(w, ", %s %q", p.kind, p.name)
			}
		}
		printf(w, "\n")
		for _, b := range q.Path {
			printf(w, "  by %s\n", b)
		}
		printSettings(w, "  ", q.Settings)
	}
}

// printSettings prints where each setting comes from: an argument, a policy or the default.
func printSettings(w io.Writer, indent string, all []client.SettingSource) {
	for _, x := range all {
		printf(w, "%s%s = %s (%s)\n", indent, x.Argument, x.Value, x.Source)
	}
}

// printSteps prints the exchanges in the order in which routing visits them, with the bindings that
// missed.
func printSteps(w io.Writer, steps []client.RoutingStep) {
	for _, s := range steps {
		if s.Missing {
			printf(w, "exchange %q does not exist; reached by %s\n", s.Exchange, s.Via)
			continue
		}
		about := s.Type
		if s.Via != "" {
			about += "; reached by " + s.Via
		}
		printf(w, "exchange %q (%s): %s\n", s.Exchange, about, fmt.Sprintf("%d bindings match, %d do not", len(s.Taken), s.MissesTotal))
		for _, m := range s.Misses {
			printf(w, "  not %s: %s\n", m.Binding, m.Why)
		}
	}
}
