package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// maxPasswordBytes bounds a password that is read.
const maxPasswordBytes = 4 << 10

// newUser groups `quoratectl user`.
func newUser(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "user", Aliases: []string{"users"}, Short: "Create, delete, limit and list users"}
	cmd.AddCommand(newUserPut(s), newUserPasswd(s), newUserTags(s), newUserDelete(s), newUserList(s), newUserLimits(s), newUsage(s, "user", func(ctx context.Context, c *client.Client, name string) iter.Seq2[client.Limit, error] {
		return c.LimitsOfUser(ctx, name)
	}))
	return cmd
}

// userPassword holds the flags for a user's password; one of them is required.
type userPassword struct {
	text, hash, algorithm string
	stdin, none           bool
}

// flags adds the flags for a password, of which at most one may be given.
func (p *userPassword) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.text, "new-password", "", "password of the user; other users of this host can see it in the list of processes: better use --password-stdin")
	f.BoolVar(&p.stdin, "password-stdin", false, "read the password from the standard input, up to the end of the first line")
	f.StringVar(&p.hash, "password-hash", "", "store this hash unchanged, with --hashing-algorithm")
	f.StringVar(&p.algorithm, "hashing-algorithm", "rabbit_password_hashing_sha256", "algorithm of --password-hash: argon2id, rabbit_password_hashing_sha256 or ..._sha512")
	f.BoolVar(&p.none, "no-password", false, "the user cannot log in by password")
	cmd.MarkFlagsMutuallyExclusive("new-password", "password-stdin", "password-hash", "no-password")
}

// put sets the password in a request for a new user.
func (p *userPassword) put(cmd *cobra.Command, u *client.User) error {
	switch {
	case p.none:
	case p.hash != "":
		u.Hash, u.Algorithm = p.hash, p.algorithm
	case p.stdin:
		text, err := readSecret(cmd.InOrStdin())
		if err != nil {
			return err
		}
		u.Password = text
	default:
		u.Password = p.text
	}
	if u.Password == "" && u.Hash == "" && !p.none {
		return usageError{errors.New("the password is empty or not given: use --password-stdin, --new-password, --password-hash or --no-password")}
	}
	return nil
}

// readSecret reads a line.
func readSecret(in io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxPasswordBytes+1))
	if err != nil {
		return "", fmt.Errorf("read the password from the standard input: %w", err)
	}
	if len(text) > maxPasswordBytes {
		return "", usageError{fmt.Errorf("the standard input has more than %d bytes: want a password", maxPasswordBytes)}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

// change sets the new password in a change of a user.
func (p *userPassword) change(cmd *cobra.Command, u *client.UserChange) error {
	var of client.User
	err := p.put(cmd, &of)
	u.Password, u.Hash, u.Algorithm, u.NoPassword = of.Password, of.Hash, of.Algorithm, p.none
	return err
}

const tagUsage = "administrator, policymaker, monitoring, management or impersonator; repeatable"

// newUserPut makes `user put`. It makes the user or changes it, so scripts may repeat it.
func newUserPut(s *session) *cobra.Command {
	var tags []string
	var p userPassword
	put := &cobra.Command{
		Use: "put NAME", Short: "Create a user, or set the password and, if given, the tags of an existing one", Args: exactArgs("NAME"),
		Example: `  quoratectl user put ops --tag administrator --password-stdin <password.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			u := client.UserChange{Name: args[0], Create: true, Tags: tags}
			if err := p.change(cmd, &u); err != nil {
				return err
			}
			return s.change(cmd, "created", func(ctx context.Context, c *client.Client) (bool, error) { return c.ChangeUser(ctx, u) })
		},
	}
	p.flags(put)
	put.Flags().StringArrayVar(&tags, "tag", nil, tagUsage+"; without any, the user keeps its tags")
	return put
}

// newUserPasswd makes `user passwd`. It refuses a user that does not exist.
func newUserPasswd(s *session) *cobra.Command {
	var p userPassword
	passwd := &cobra.Command{
		Use: "passwd NAME", Short: "Change the password of a user; this ends its tokens", Args: exactArgs("NAME"),
		Example: `  quoratectl user passwd ops --password-stdin <password.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			u := client.UserChange{Name: args[0]}
			if err := p.change(cmd, &u); err != nil {
				return err
			}
			return s.changeUser(cmd, u)
		},
	}
	p.flags(passwd)
	return passwd
}

// newUserTags makes `user tags`. Without --tag it demands --none, so that a forgotten flag takes no
// rights away.
func newUserTags(s *session) *cobra.Command {
	var tags []string
	var none bool
	cmd := &cobra.Command{
		Use: "tags NAME", Short: "Replace the tags of a user", Args: exactArgs("NAME"),
		Example: `  quoratectl user tags ops --tag administrator --tag monitoring`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(tags) == 0 && !none {
				return usageError{errors.New("no tags are given: use --tag, or --none to remove all tags")}
			}
			return s.changeUser(cmd, client.UserChange{Name: args[0], Tags: append([]string{}, tags...)})
		},
	}
	cmd.Flags().StringArrayVar(&tags, "tag", nil, tagUsage)
	cmd.Flags().BoolVar(&none, "none", false, "remove all tags")
	cmd.MarkFlagsMutuallyExclusive("tag", "none")
	return cmd
}

// changeUser changes an existing user.
func (s *session) changeUser(cmd *cobra.Command, u client.UserChange) error {
	return s.with(cmd, func(ctx context.Context, c *client.Client) error {
		_, err := c.ChangeUser(ctx, u)
		return err
	})
}

// newUserDelete makes `user delete`.
func newUserDelete(s *session) *cobra.Command {
	return s.dryRun(&cobra.Command{
		Use: "delete NAME", Short: "Delete a user with its permissions", Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, "deleted", func(ctx context.Context, c *client.Client) (bool, error) { return c.DeleteUser(ctx, args[0]) })
		},
	}, userLoss)
}

// newUserList makes `user list`.
func newUserList(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List users", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				all, err := client.Collect(c.Users(ctx))
				if err != nil {
					return err
				}
				return printList(s, cmd.OutOrStdout(), []string{"name", "tags", "password", "max-connections", "max-channels", "quotas"}, all, func(u client.UserInfo) []string {
					l := u.Limits
					return []string{
						u.Name, strings.Join(u.Tags, ","), u.HashingAlgorithm, limitText(l.MaxConnections), limitText(l.MaxChannels), quotaText(userLimitFlags(orNone(l))[2:]),
					}
				})
			})
		},
	}
}

// newUserLimits makes `user limits`. The API replaces all limits at once, so the command reads the
// present ones first and changes those that are given.
func newUserLimits(s *session) *cobra.Command {
	var given client.UserLimits
	flags := userLimitFlags(&given)
	limits := &cobra.Command{
		Use: "limits NAME", Short: "Set limits of a user; limits that are not given stay", Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.ContainsFunc(flags, func(f limitFlag) bool { return *f.value != nil }) {
				return usageError{errors.New("no limit is given: use --" + flags[0].name + " or another limit")}
			}
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				l, err := limitsOf(ctx, c, args[0])
				if err != nil {
					return err
				}
				for i, f := range userLimitFlags(&l) {
					if now := *flags[i].value; now != nil {
						*f.value = now
					}
				}
				return c.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: args[0], Limits: l})
			})
		},
	}
	for _, f := range flags {
		f.add(limits)
	}
	return limits
}

// limitsOf returns the limits of a user, none for a missing user: setting them is refused then.
func limitsOf(ctx context.Context, c *client.Client, name string) (client.UserLimits, error) {
	for u, err := range c.Users(ctx) {
		if err != nil {
			return client.UserLimits{}, err
		}
		if l := u.Limits; u.Name == name {
			return *orNone(l), nil
		}
	}
	return client.UserLimits{}, nil
}
