package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

func newVhost(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "vhost", Aliases: []string{"vhosts"}, Short: "Make, delete, bound and list vhosts"}
	cmd.AddCommand(newVhostPut(s), newVhostDelete(s), newVhostList(s), newVhostLimits(s), newUsage(s, "vhost", func(ctx context.Context, c *client.Client, name string) ([]*brokerv1.Limit, error) {
		return c.LimitsOfVhost(ctx, name)
	}))
	return cmd
}

func newVhostPut(s *session) *cobra.Command {
	var h client.Vhost
	var unknown string
	put := &cobra.Command{
		Use: "put NAME", Short: "Make a vhost, or replace the settings of the one that exists", Args: exactArgs("NAME"),
		Example: `  quoratectl vhost put orders --description "the shop" --tag prod --protected`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if unknown != unknownWarn && unknown != unknownRefuse {
				return usageError{fmt.Errorf("--unknown-arguments is %q: use %s or %s", unknown, unknownWarn, unknownRefuse)}
			}
			h.Name, h.RefuseUnknown = args[0], unknown == unknownRefuse
			return s.change(cmd, "created", func(ctx context.Context, c *client.Client) (bool, error) { return c.PutVhost(ctx, h) })
		},
	}
	f := put.Flags()
	f.StringVar(&h.Description, "description", "", "what it is for")
	f.StringArrayVar(&h.Tags, "tag", nil, "a tag; repeatable")
	f.StringVar(&h.DefaultQueueType, "default-queue-type", "quorum", "of durable queues that name none: quorum or classic")
	f.BoolVar(&h.Protected, "protected", false, "cannot be deleted until it is put again without")
	f.BoolVar(&h.DelayedPublish, "delayed-publish", false, "the header x-delay of a message says for how many milliseconds it waits in its queues")
	f.BoolVar(&h.ImportDeaths, "import-deaths", false, "headers such as x-death of a published message count as its deaths")
	f.BoolVar(&h.MergePolicies, "merge-policies", false, "all policies that match count, not only the first")
	f.StringVar(&unknown, "unknown-arguments", unknownWarn, "arguments that begin with x- and mean nothing, such as misspelt ones: warn, or refuse what would be made with one")
	return put
}

// What becomes of unknown arguments.
const (
	unknownWarn   = "warn"
	unknownRefuse = "refuse"
)

// change runs a call and prints the word with what the call tells.
func (s *session) change(cmd *cobra.Command, word string, call func(context.Context, *client.Client) (bool, error)) error {
	return s.with(cmd, func(ctx context.Context, c *client.Client) error {
		changed, err := call(ctx, c)
		if err != nil {
			return err
		}
		return s.printWord(cmd.OutOrStdout(), word, changed)
	})
}

func newVhostDelete(s *session) *cobra.Command {
	return s.dryRun(&cobra.Command{
		Use: "delete NAME", Short: "Delete a vhost with all its queues and messages", Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, "deleted", func(ctx context.Context, c *client.Client) (bool, error) { return c.DeleteVhost(ctx, args[0]) })
		},
	}, vhostLoss)
}

func newVhostList(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List vhosts", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				all, err := client.Collect(c.Vhosts(ctx))
				if err != nil {
					return err
				}
				header := []string{"name", "queues", "default-type", "max-queues", "max-connections", "quotas", "protected", "unknown-arguments", "tags", "description"}
				return printList(s, cmd.OutOrStdout(), header, all, func(h *brokerv1.Vhost) []string {
					l := h.GetLimits()
					return []string{
						h.GetName(), strconv.FormatUint(h.GetQueues(), 10), h.GetDefaultQueueType(), limitText(l.MaxQueues), limitText(l.MaxConnections), quotaText(vhostLimitFlags(vhostLimitsOf(l))[2:]), //nolint:protogetter // absent is not 0
						strconv.FormatBool(h.GetProtectedFromDeletion()), unknownText(h.GetUnknownArguments()), strings.Join(h.GetTags(), ","), h.GetDescription(),
					}
				})
			})
		},
	}
}

// unknownText shows what becomes of unknown arguments.
func unknownText(u brokerv1.UnknownArguments) string {
	if u == brokerv1.UnknownArguments_UNKNOWN_ARGUMENTS_REFUSE {
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

func newVhostLimits(s *session) *cobra.Command {
	var l client.VhostLimits
	limits := &cobra.Command{
		Use: "limits NAME", Short: "Replace the limits of a vhost; those not given are none", Args: exactArgs("NAME"),
		Example: `  quoratectl vhost limits shop --max-queues 100 --max-message-rate 5000 --max-stored-bytes 10000000000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error { return c.SetVhostLimits(ctx, args[0], l) })
		},
	}
	for _, f := range vhostLimitFlags(&l) {
		f.add(limits)
	}
	return limits
}

// noLimit is a limit that is none.
const noLimit = -1
