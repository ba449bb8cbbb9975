package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newVhost groups `quoratectl vhost`.
func newVhost(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "vhost", Aliases: []string{"vhosts"}, Short: "Create, delete, limit and list vhosts"}
	cmd.AddCommand(newVhostPut(s), newVhostDelete(s), newVhostList(s), newVhostLimits(s), newUsage(s, "vhost", func(ctx context.Context, c *client.Client, name string) iter.Seq2[client.Limit, error] {
		return c.LimitsOfVHost(ctx, name)
	}))
	return cmd
}

// newVhostPut makes `vhost put`. Settings that are not given get their default, also on a vhost
// that exists.
func newVhostPut(s *session) *cobra.Command {
	var h client.VHost
	var unknown string
	put := &cobra.Command{
		Use: "put NAME", Short: "Create a vhost, or replace the settings of an existing one", Args: exactArgs("NAME"),
		Example: `  quoratectl vhost put orders --description "the shop" --tag prod --protected`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if unknown != unknownWarn && unknown != unknownRefuse {
				return usageError{fmt.Errorf("--unknown-arguments is %q: use %s or %s", unknown, unknownWarn, unknownRefuse)}
			}
			h.Name, h.UnknownArguments = args[0], client.UnknownArguments(unknown)
			return s.change(cmd, "created", func(ctx context.Context, c *client.Client) (bool, error) { return c.PutVHost(ctx, h) })
		},
	}
	f := put.Flags()
	f.StringVar(&h.Description, "description", "", "description")
	f.StringArrayVar(&h.Tags, "tag", nil, "a tag; repeatable")
	f.StringVar(&h.DefaultQueueType, "default-queue-type", "quorum", "type of durable queues that name none: quorum or classic")
	f.BoolVar(&h.Protected, "protected", false, "refuse to delete it until it is put again without this flag")
	f.BoolVar(&h.DelayedPublish, "delayed-publish", false, "delay messages in their queues by the milliseconds in their header x-delay")
	f.BoolVar(&h.ImportDeaths, "import-deaths", false, "count headers such as x-death of a published message as its deaths")
	f.BoolVar(&h.MergePolicies, "merge-policies", false, "apply all matching policies, not only the first")
	f.StringVar(&unknown, "unknown-arguments", unknownWarn, "what to do about unknown arguments that begin with x-, such as misspelt ones: warn, or refuse the declaration")
	return put
}

// What to do about unknown arguments.
const (
	unknownWarn   = "warn"
	unknownRefuse = "refuse"
)

// change runs a call and prints the word with the call's answer.
func (s *session) change(cmd *cobra.Command, word string, call func(context.Context, *client.Client) (bool, error)) error {
	return s.with(cmd, func(ctx context.Context, c *client.Client) error {
		changed, err := call(ctx, c)
		if err != nil {
			return err
		}
		return s.printWord(cmd.OutOrStdout(), word, changed)
	})
}

// newVhostDelete makes `vhost delete`.
func newVhostDelete(s *session) *cobra.Command {
	return s.dryRun(&cobra.Command{
		Use: "delete NAME", Short: "Delete a vhost with all its queues and messages", Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, "deleted", func(ctx context.Context, c *client.Client) (bool, error) { return c.DeleteVHost(ctx, args[0]) })
		},
	}, vhostLoss)
}

// newVhostList makes `vhost list`.
func newVhostList(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List vhosts", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				all, err := client.Collect(c.VHosts(ctx))
				if err != nil {
					return err
				}
				header := []string{"name", "queues", "default-type", "max-queues", "max-connections", "quotas", "protected", "unknown-arguments", "tags", "description"}
				return printList(s, cmd.OutOrStdout(), header, all, func(h client.VHost) []string {
					l := h.Limits
					return []string{
						h.Name, strconv.FormatUint(h.Queues, 10), h.DefaultQueueType, limitText(l.MaxQueues), limitText(l.MaxConnections), quotaText(vhostLimitFlags(&l)[2:]),
						strconv.FormatBool(h.Protected), unknownText(h.UnknownArguments), strings.Join(h.Tags, ","), h.Description,
					}
				})
			})
		},
	}
}

// unknownText shows what a vhost does about unknown arguments.
func unknownText(u client.UnknownArguments) string {
	if u == client.UnknownRefuse {
		return unknownRefuse
	}
	return unknownWarn
}

// limitText shows a limit, "-" for none.
func limitText(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// newVhostLimits makes `vhost limits`. Unlike `user limits` it replaces all of them.
func newVhostLimits(s *session) *cobra.Command {
	var l client.VHostLimits
	limits := &cobra.Command{
		Use: "limits NAME", Short: "Replace the limits of a vhost; limits that are not given are removed", Args: exactArgs("NAME"),
		Example: `  quoratectl vhost limits shop --max-queues 100 --max-message-rate 5000 --max-stored-bytes 10000000000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				return c.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: args[0], Limits: l})
			})
		},
	}
	for _, f := range vhostLimitFlags(&l) {
		f.add(limits)
	}
	return limits
}

// noLimit stands for no limit.
const noLimit = -1
