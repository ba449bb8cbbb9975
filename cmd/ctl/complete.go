package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// completionTimeout bounds how long the shell waits for names.
const completionTimeout = 2 * time.Second

// completer lists names for the shell.
type completer func(ctx context.Context, s *session, c *client.Client) ([]string, error)

// queueNames completes queue names of the vhost on the command line.
func queueNames(ctx context.Context, s *session, c *client.Client) ([]string, error) {
	vhost := s.vhost
	if vhost == "" {
		vhost = "/"
	}
	all, err := client.Collect(c.Queues(ctx, client.ListQueuesRequest{VHost: vhost}))
	var names []string
	for _, q := range all {
		names = append(names, q.Name)
	}
	return names, err
}

// exchangeNames completes exchange names, without the default exchange, whose name is empty.
func exchangeNames(ctx context.Context, s *session, c *client.Client) ([]string, error) {
	vhost := s.vhost
	if vhost == "" {
		vhost = "/"
	}
	all, err := client.Collect(c.Exchanges(ctx, vhost))
	var names []string
	for _, x := range all {
		if x.Name != "" {
			names = append(names, x.Name)
		}
	}
	return names, err
}

// vhostNames completes names of vhosts.
func vhostNames(ctx context.Context, _ *session, c *client.Client) ([]string, error) {
	all, err := client.Collect(c.VHosts(ctx))
	var names []string
	for _, h := range all {
		names = append(names, h.Name)
	}
	return names, err
}

// userNames completes names of users.
func userNames(ctx context.Context, _ *session, c *client.Client) ([]string, error) {
	all, err := client.Collect(c.Users(ctx))
	var names []string
	for _, u := range all {
		names = append(names, u.Name)
	}
	return names, err
}

// nodeNames completes ids of nodes.
func nodeNames(ctx context.Context, _ *session, c *client.Client) ([]string, error) {
	st, err := c.ClusterStatus(ctx)
	var names []string
	for _, n := range st.Nodes {
		names = append(names, n.ID)
	}
	return names, err
}

// asked completes names with an answer of the cluster; an error means no names.
func (s *session) asked(names completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		if s.complete() != nil { // the flags given so far
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		c, err := s.dial(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		found, err := names(ctx, s, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// The shell shows names as they are.
		found = slices.DeleteFunc(found, func(name string) bool { return cell(name) != name })
		slices.Sort(found)
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// addCompletion completes names in the arguments and flags of every command.
func (s *session) addCompletion(root *cobra.Command) {
	byArgument := map[string]completer{
		"QUEUE": queueNames, "EXCHANGE": exchangeNames, "USER": userNames, "NODE": nodeNames,
	}
	ofNames := map[string]completer{"vhost": vhostNames, "user": userNames}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		words := strings.Fields(cmd.Use)[1:]
		for i := range words {
			if words[i] == "NAME" { // names of what the group of commands manages
				words[i] = cmd.Parent().Name()
			}
		}
		if cmd.ValidArgsFunction == nil && len(words) > 0 {
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				if len(args) >= len(words) {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				names := byArgument[words[len(args)]]
				if names == nil {
					names = ofNames[words[len(args)]]
				}
				if names == nil {
					return nil, cobra.ShellCompDirectiveDefault
				}
				return s.asked(names)(cmd, args, typed)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
	_ = root.RegisterFlagCompletionFunc("vhost", s.asked(vhostNames)) // the flag is known to exist
	_ = root.RegisterFlagCompletionFunc("context", completeContexts)
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputTable, outputJSON, outputYAML}, cobra.ShellCompDirectiveNoFileComp))
}
