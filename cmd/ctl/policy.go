package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newPolicy groups `quoratectl policy`.
func newPolicy(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Set, clear and list policies"}
	cmd.AddCommand(newPolicyPut(s), newPolicyDelete(s), newPolicyList(s))
	return cmd
}

// newPolicyPut makes `policy put`.
func newPolicyPut(s *session) *cobra.Command {
	var p client.Policy
	put := &cobra.Command{
		Use:   "put NAME PATTERN KEY=VALUE...",
		Short: "Create a policy, or replace the one of that name",
		Example: `  quoratectl policy put limits '^orders\.' max-length=100000 overflow=reject-publish
  quoratectl policy put ceiling '.*' --operator max-length-bytes=1000000000`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 3 {
				return usageError{fmt.Errorf("%d arguments, want NAME, PATTERN and at least one KEY=VALUE", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			p.VHost, p.Name, p.Pattern = s.vhost, args[0], args[1]
			if p.Definition, err = parseArguments(args[2:]); err != nil {
				return err
			}
			return s.change(cmd, "created", func(ctx context.Context, c *client.Client) (bool, error) { return c.PutPolicy(ctx, p) })
		},
	}
	put.Flags().StringVar(&p.ApplyTo, "apply-to", "all", "what it applies to: all, queues, quorum_queues, classic_queues or exchanges")
	put.Flags().Int64Var(&p.Priority, "priority", 0, "priority; of the matching policies the one with the highest priority applies")
	put.Flags().BoolVar(&p.Operator, "operator", false, "an operator policy, which bounds what users set")
	return put
}

// newPolicyDelete makes `policy delete`. Policies of users and of operators have names of their
// own, hence the flag.
func newPolicyDelete(s *session) *cobra.Command {
	var operator bool
	remove := &cobra.Command{
		Use: "delete NAME", Short: "Delete a policy; its queues and exchanges lose its settings", Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, "deleted", func(ctx context.Context, c *client.Client) (bool, error) {
				return c.DeletePolicy(ctx, client.PolicyRef{VHost: s.vhost, Name: args[0], Operator: operator})
			})
		},
	}
	remove.Flags().BoolVar(&operator, "operator", false, "an operator policy")
	return s.dryRun(remove, s.policyLoss(&operator))
}

// newPolicyList makes `policy list`.
func newPolicyList(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List policies; operator policies bound what users set", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				all, err := client.Collect(c.Policies(ctx, s.vhost))
				if err != nil {
					return err
				}
				header := []string{"vhost", "name", "kind", "pattern", "apply-to", "priority", "timeouts", "definition"}
				return printList(s, cmd.OutOrStdout(), header, all, policyRow)
			})
		},
	}
}

// policyRow shows the definition sorted by key, so that equal policies look equal.
func policyRow(p client.Policy) []string {
	kind := "user"
	if p.Operator {
		kind = "operator"
	}
	var definition []string
	for _, key := range slices.Sorted(maps.Keys(p.Definition)) {
		definition = append(definition, fmt.Sprintf("%s=%v", key, p.Definition[key]))
	}
	return []string{
		p.VHost, p.Name, kind, p.Pattern, p.ApplyTo, strconv.FormatInt(p.Priority, 10), fmt.Sprint(p.PatternTimeouts),
		strings.Join(definition, " "),
	}
}
