package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newWhoAmI makes `whoami`.
func newWhoAmI(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show the user that you are logged in as", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				who, err := c.WhoAmI(ctx)
				if err != nil {
					return err
				}
				row := []string{who.User, strings.Join(who.Tags, ","), endText(who.Expires)}
				return s.printOne(cmd.OutOrStdout(), []string{"user", "tags", "login-ends"}, row, who)
			})
		},
	}
}

// endText shows when a token ends, "-" for never.
func endText(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

// newToken groups `quoratectl token`.
func newToken(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "token", Aliases: []string{"tokens"}, Short: "Create and revoke tokens, which log in without a password"}
	cmd.AddCommand(newTokenMint(s), newTokenRevoke(s))
	return cmd
}

// newTokenMint makes `token mint`. The answer alone has the token: it cannot be shown again.
func newTokenMint(s *session) *cobra.Command {
	var lifetime time.Duration
	mint := &cobra.Command{
		Use: "mint", Short: "Create a token for yourself; it is shown only once", Args: exactArgs(),
		Example: `  export ` + tokenEnv + `=$(quoratectl token mint --for 8h -o json | jq -r .token)`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				t, err := c.MintToken(ctx, lifetime)
				if err != nil {
					return err
				}
				row := []string{t.ID, endText(t.Expires), t.Token}
				return s.printOne(cmd.OutOrStdout(), []string{"id", "ends", "token"}, row, t)
			})
		},
	}
	mint.Flags().DurationVar(&lifetime, "for", time.Hour, "lifetime, at most 720h; the token also ends when the user's password changes")
	return mint
}

// newTokenRevoke makes `token revoke`.
func newTokenRevoke(s *session) *cobra.Command {
	return s.dryRun(&cobra.Command{
		Use: "revoke ID", Short: "Revoke one of your tokens; administrators can revoke any token", Args: exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, "deleted", func(ctx context.Context, c *client.Client) (bool, error) { return c.RevokeToken(ctx, args[0]) })
		},
	}, tokenLoss)
}
