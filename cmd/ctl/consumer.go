package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newConsumer groups `quoratectl consumer`.
func newConsumer(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "consumer", Aliases: []string{"consumers"}, Short: "List clients' consumers"}
	cmd.AddCommand(newConsumerList(s))
	return cmd
}

// newConsumerList makes `consumer list`. Nodes that do not answer are named on standard error, and
// the list is of the others.
func newConsumerList(s *session) *cobra.Command {
	r := client.ListConsumersRequest{}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the consumers of clients of all nodes, of all vhosts without --vhost", Args: exactArgs(),
		Long: "List the consumers of clients of all nodes: which clients take a queue's messages, and which hold them.\n" +
			"unsettled: deliveries that the client has received and not settled; buffered: deliveries that wait until it reads them.",
		Example: "  quoratectl consumer list --vhost / --queue orders",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				r.VHost = s.vhost
				all, err := collectAnswered(cmd, c.Consumers(ctx, r), "the consumers of its clients are missing")
				if err != nil {
					return err
				}
				header := []string{
					"vhost", "queue", "tag", "connection", "client", "user", "prefetch", "priority", "auto_ack", "exclusive", "activity",
					"unsettled", "buffered", "since",
				}
				return printList(s, cmd.OutOrStdout(), header, all, consumerRow)
			})
		},
	}
	cmd.Flags().StringVar(&r.Queue, "queue", "", "only consumers of queues of this name")
	return cmd
}

// consumerRow shows a prefetch of 0 as what it means, and the node where the connection has no id.
func consumerRow(x client.ConsumerInfo) []string {
	prefetch := "unlimited"
	if n := x.Prefetch; n > 0 {
		prefetch = fmt.Sprint(n)
	}
	return []string{
		x.VHost, x.Queue, x.Tag, cmp.Or(x.Connection, x.Node), x.ConnectionName, x.User, prefetch,
		fmt.Sprint(x.Priority), fmt.Sprint(x.AutoAck), fmt.Sprint(x.Exclusive), x.Activity,
		fmt.Sprint(x.Unsettled), fmt.Sprint(x.Buffered), x.ConsumingSince.UTC().Format(time.RFC3339),
	}
}
