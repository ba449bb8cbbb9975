package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newPermission groups `quoratectl permission`.
func newPermission(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "permission", Aliases: []string{"permissions"}, Short: "Manage what users may do in a vhost"}
	cmd.AddCommand(newPermissionSet(s), newPermissionClear(s), newPermissionList(s))
	return cmd
}

// newPermissionSet makes `permission set` (VH-6).
func newPermissionSet(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "set USER CONFIGURE WRITE READ", Args: exactArgs("USER", "CONFIGURE", "WRITE", "READ"),
		Short:   "Set by three patterns what a user may configure, write to and read from; an empty pattern matches nothing",
		Example: `  quoratectl permission set app '^app\.' '^(app\.|amq\.default$)' '.*' --vhost orders`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p := client.Permission{User: args[0], VHost: s.vhost, Configure: args[1], Write: args[2], Read: args[3]}
			return s.change(cmd, "created", func(ctx context.Context, c *client.Client) (bool, error) { return c.SetPermission(ctx, p) })
		},
	}
}

// newPermissionClear makes `permission clear`.
func newPermissionClear(s *session) *cobra.Command {
	return s.dryRun(&cobra.Command{
		Use: "clear USER", Short: "Remove all permissions of a user in a vhost", Args: exactArgs("USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, "deleted", func(ctx context.Context, c *client.Client) (bool, error) {
				return c.ClearPermission(ctx, client.PermissionRef{VHost: s.vhost, User: args[0]})
			})
		},
	}, s.permissionLoss)
}

// newPermissionList makes `permission list`.
func newPermissionList(s *session) *cobra.Command {
	var user string
	list := &cobra.Command{
		Use: "list", Short: "List permissions, of all vhosts without --vhost", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				all, err := client.Collect(c.Permissions(ctx, client.ListPermissionsRequest{VHost: s.vhost, User: user}))
				if err != nil {
					return err
				}
				return printList(s, cmd.OutOrStdout(), []string{"vhost", "user", "configure", "write", "read"}, all, func(p client.Permission) []string {
					return []string{p.VHost, p.User, p.Configure, p.Write, p.Read}
				})
			})
		},
	}
	list.Flags().StringVar(&user, "of", "", "only this user's")
	return list
}

// newTopicPermission groups `quoratectl topic-permission`.
func newTopicPermission(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "topic-permission", Aliases: []string{"topic-permissions"}, Short: "Restrict the routing keys of users at topic exchanges",
	}
	cmd.AddCommand(newTopicPermissionSet(s), newTopicPermissionClear(s), newTopicPermissionList(s))
	return cmd
}

// newTopicPermissionSet makes `topic-permission set` (VH-8).
func newTopicPermissionSet(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "set USER EXCHANGE WRITE READ", Args: exactArgs("USER", "EXCHANGE", "WRITE", "READ"),
		Short:   "Set by patterns which routing keys a user may publish and bind with; {username} and {vhost} are replaced",
		Example: `  quoratectl topic-permission set app amq.topic '^{username}\.' '.*'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p := client.TopicPermission{User: args[0], VHost: s.vhost, Exchange: args[1], Write: args[2], Read: args[3]}
			return s.change(cmd, "created", func(ctx context.Context, c *client.Client) (bool, error) { return c.SetTopicPermission(ctx, p) })
		},
	}
}

// newTopicPermissionClear makes `topic-permission clear`.
func newTopicPermissionClear(s *session) *cobra.Command {
	var exchange string
	remove := &cobra.Command{
		Use: "clear USER", Short: "Remove topic permissions of a user", Args: exactArgs("USER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, "deleted", func(ctx context.Context, c *client.Client) (bool, error) {
				return c.ClearTopicPermission(ctx, client.TopicPermissionRef{VHost: s.vhost, User: args[0], Exchange: exchange})
			})
		},
	}
	remove.Flags().StringVar(&exchange, "exchange", "", "only at this exchange; default: all of the vhost")
	return s.dryRun(remove, s.topicPermissionLoss(&exchange))
}

// newTopicPermissionList makes `topic-permission list`.
func newTopicPermissionList(s *session) *cobra.Command {
	var user string
	list := &cobra.Command{
		Use: "list", Short: "List topic permissions, of all vhosts without --vhost", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				all, err := client.Collect(c.TopicPermissions(ctx, client.ListPermissionsRequest{VHost: s.vhost, User: user}))
				if err != nil {
					return err
				}
				return printList(s, cmd.OutOrStdout(), []string{"vhost", "user", "exchange", "write", "read"}, all, func(p client.TopicPermission) []string {
					return []string{p.VHost, p.User, p.Exchange, p.Write, p.Read}
				})
			})
		},
	}
	list.Flags().StringVar(&user, "of", "", "only this user's")
	return list
}
