package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// dryRun adds --dry-run to a destructive command. With that flag preview reports what would be
// destroyed, and nothing changes. preview fails if there is nothing to destroy, or if the cluster
// would refuse.
func (s *session) dryRun(cmd *cobra.Command, preview func(context.Context, *client.Client, []string) (string, error)) *cobra.Command {
	var only bool
	cmd.Flags().BoolVar(&only, "dry-run", false, "print what would be destroyed and change nothing")
	destroy := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !only {
			return destroy(cmd, args)
		}
		return s.with(cmd, func(ctx context.Context, c *client.Client) error {
			text, err := preview(ctx, c, args)
			switch {
			case err != nil:
				return err
			case s.output != outputTable:
				return s.encode(cmd.OutOrStdout(), map[string]any{"dry_run": true, "loss": text})
			}
			printf(cmd.OutOrStdout(), "dry run: %s; nothing was done\n", text)
			return nil
		})
	}
	return cmd
}

// queueLoss says for --dry-run what a queue holds. A queue without a leader has no figures, which
// is no error: it can be deleted nevertheless.
func (s *session) queueLoss(ctx context.Context, c *client.Client, args []string) (string, error) {
	q, err := c.GetQueue(ctx, client.QueueRef{VHost: s.vhost, Name: args[0]})
	if err != nil {
		return "", err
	}
	n := q.Stats
	if n == nil {
		return fmt.Sprintf("queue %q has no leader to ask: the number of its messages is unknown", args[0]), nil
	}
	return fmt.Sprintf("queue %q holds %d ready messages, %d unacknowledged, %d in its dead-letter backlog, and has %d consumers",
		args[0], n.MessagesReady, n.MessagesUnacknowledged, n.MessagesDLX, n.Consumers), nil
}

// exchangeLoss counts the bindings from and to the exchange, which are deleted with it.
func (s *session) exchangeLoss(ctx context.Context, c *client.Client, args []string) (string, error) {
	all, err := client.Collect(c.Bindings(ctx, s.vhostOrDefault()))
	if err != nil {
		return "", err
	}
	exchanges, err := client.Collect(c.Exchanges(ctx, s.vhostOrDefault()))
	if err != nil {
		return "", err
	}
	known, bindings := false, 0
	for _, x := range exchanges {
		known = known || x.Name == args[0]
	}
	for _, b := range all {
		if b.Source == args[0] || b.ToExchange && b.Destination == args[0] {
			bindings++
		}
	}
	if !known {
		return "", fmt.Errorf("exchange %q does not exist", args[0])
	}
	return fmt.Sprintf("exchange %q has %d bindings, which are deleted with it", args[0], bindings), nil
}

// vhostLoss returns how many queues are deleted with a vhost, and fails as the cluster would for a protected one.
func vhostLoss(ctx context.Context, c *client.Client, args []string) (string, error) {
	all, err := client.Collect(c.VHosts(ctx))
	if err != nil {
		return "", err
	}
	for _, h := range all {
		if h.Name != args[0] {
			continue
		}
		if h.Protected {
			return "", fmt.Errorf("vhost %q is protected from deletion", args[0])
		}
		return fmt.Sprintf("vhost %q has %d queues, which are deleted with their messages", args[0], h.Queues), nil
	}
	return "", fmt.Errorf("vhost %q does not exist", args[0])
}

// userLoss says in how many vhosts a user has permissions, and fails as the cluster would for the
// last administrator (VH-10).
func userLoss(ctx context.Context, c *client.Client, args []string) (string, error) {
	all, err := client.Collect(c.Users(ctx))
	if err != nil {
		return "", err
	}
	may, err := client.Collect(c.Permissions(ctx, client.ListPermissionsRequest{User: args[0]}))
	if err != nil {
		return "", err
	}
	for _, u := range all {
		if u.Name == args[0] {
			if lastAdministrator(all, u) {
				return "", fmt.Errorf("user %q is the last administrator who can log in; make another one first", args[0])
			}
			return fmt.Sprintf("user %q has permissions in %d vhosts, which are deleted with it", args[0], len(may)), nil
		}
	}
	return "", fmt.Errorf("user %q does not exist", args[0])
}

// lastAdministrator reports whether no other administrator could log in (VH-10).
func lastAdministrator(all []client.UserInfo, u client.UserInfo) bool {
	governs := func(u client.UserInfo) bool {
		barred := u.Limits != nil && u.Limits.MaxConnections != nil && *u.Limits.MaxConnections == 0
		return slices.Contains(u.Tags, "administrator") && u.HashingAlgorithm != "" && !barred
	}
	return governs(u) && !slices.ContainsFunc(all, func(o client.UserInfo) bool { return o.Name != u.Name && governs(o) })
}

// policyLoss reports the queues for which a policy is in force.
func (s *session) policyLoss(operator *bool) func(context.Context, *client.Client, []string) (string, error) {
	return func(ctx context.Context, c *client.Client, args []string) (string, error) {
		all, err := client.Collect(c.Policies(ctx, s.vhostOrDefault()))
		if err != nil {
			return "", err
		}
		known := false
		for _, p := range all {
			known = known || p.Name == args[0] && p.Operator == *operator
		}
		if !known {
			return "", fmt.Errorf("policy %q does not exist", args[0])
		}
		queues, err := client.Collect(c.Queues(ctx, client.ListQueuesRequest{VHost: s.vhostOrDefault()}))
		if err != nil {
			return "", err
		}
		in := func(q client.QueueInfo) bool {
			if *operator {
				return q.OperatorPolicy == args[0]
			}
			return q.Policy == args[0]
		}
		n := 0
		for _, q := range queues {
			if in(q) {
				n++
			}
		}
		return fmt.Sprintf("policy %q is in force for %d queues, which would lose its settings", args[0], n), nil
	}
}

// permissionLoss shows the three patterns that would be cleared.
func (s *session) permissionLoss(ctx context.Context, c *client.Client, args []string) (string, error) {
	all, err := client.Collect(c.Permissions(ctx, client.ListPermissionsRequest{VHost: s.vhostOrDefault(), User: args[0]}))
	if err != nil {
		return "", err
	}
	for _, p := range all {
		return fmt.Sprintf("user %q may configure %q, write to %q and read from %q in vhost %q, and would lose these permissions",
			args[0], p.Configure, p.Write, p.Read, p.VHost), nil
	}
	return "", fmt.Errorf("user %q has no permission in vhost %q", args[0], s.vhostOrDefault())
}

// topicPermissionLoss names the exchanges at which the user's keys would be free again. exchange
// points to a flag, which is only set when the returned function runs.
func (s *session) topicPermissionLoss(exchange *string) func(context.Context, *client.Client, []string) (string, error) {
	return func(ctx context.Context, c *client.Client, args []string) (string, error) {
		all, err := client.Collect(c.TopicPermissions(ctx, client.ListPermissionsRequest{VHost: s.vhostOrDefault(), User: args[0]}))
		if err != nil {
			return "", err
		}
		var at []string
		for _, p := range all {
			if *exchange == "" || p.Exchange == *exchange {
				at = append(at, fmt.Sprintf("%q", p.Exchange))
			}
		}
		if len(at) == 0 {
			return "", fmt.Errorf("user %q has no topic permission there", args[0])
		}
		return fmt.Sprintf("user %q has topic permissions at %s, whose routing keys would be unrestricted", args[0], strings.Join(at, ", ")), nil
	}
}

// bindingLoss reports the bindings with a key; they may differ in their arguments.
func (s *session) bindingLoss(b *client.Binding) func(context.Context, *client.Client, []string) (string, error) {
	return func(ctx context.Context, c *client.Client, args []string) (string, error) {
		all, err := client.Collect(c.Bindings(ctx, s.vhostOrDefault()))
		if err != nil {
			return "", err
		}
		n := 0
		for _, x := range all {
			if x.Source == args[0] && x.Destination == args[1] && x.RoutingKey == args[2] && x.ToExchange == b.ToExchange {
				n++
			}
		}
		switch n {
		case 0:
			return "", fmt.Errorf("there is no binding of exchange %q to %q with the key %q", args[0], args[1], args[2])
		case 1:
			return fmt.Sprintf("exchange %q has one binding to %q with the key %q", args[0], args[1], args[2]), nil
		}
		return fmt.Sprintf("exchange %q has %d bindings to %q with the key %q; the one with the given arguments is removed", args[0], n, args[1], args[2]), nil
	}
}

// tokenLoss describes the loss in general: tokens cannot be listed.
func tokenLoss(_ context.Context, _ *client.Client, args []string) (string, error) {
	return fmt.Sprintf("nobody could log in with token %q any more, if it exists", args[0]), nil
}

// vhostOrDefault is the vhost of a call that names none.
func (s *session) vhostOrDefault() string {
	if s.vhost == "" {
		return "/"
	}
	return s.vhost
}
