package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

func newConsumer(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "consumer", Aliases: []string{"consumers"}, Short: "List clients' consumers"}
	cmd.AddCommand(newConsumerList(s))
	return cmd
}

func newConsumerList(s *session) *cobra.Command {
	r := &brokerv1.ListConsumersRequest{}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the consumers of clients of all nodes, of all vhosts without --vhost", Args: exactArgs(),
		Long: "List the consumers of clients of all nodes: who takes a queue's messages, and who holds them.\n" +
			"Unsettled is what a client has been handed and not decided on, buffered what waits for it to read.",
		Example: "  quoratectl consumer list --vhost / --queue orders",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				r.Vhost = s.vhost
				out, err := c.Consumers(ctx, r)
				if err != nil {
					return err
				}
				for _, n := range out.GetSilent() {
					printf(cmd.ErrOrStderr(), "%s does not answer: the consumers of its clients are not here\n", n)
				}
				header := []string{
					"vhost", "queue", "tag", "connection", "client", "user", "prefetch", "priority", "auto_ack", "exclusive", "activity",
					"unsettled", "buffered", "since",
				}
				return printList(s, cmd.OutOrStdout(), header, out.GetConsumers(), consumerRow)
			})
		},
	}
	cmd.Flags().StringVar(&r.Queue, "queue", "", "only those of queues of this name")
	return cmd
}

func consumerRow(x *brokerv1.Consumer) []string {
	prefetch := "unlimited"
	if n := x.GetPrefetch(); n > 0 {
		prefetch = fmt.Sprint(n)
	}
	return []string{
		x.GetVhost(), x.GetQueue(), x.GetTag(), cmp.Or(x.GetConnection(), x.GetNode()), x.GetConnectionName(), x.GetUser(), prefetch,
		fmt.Sprint(x.GetPriority()), fmt.Sprint(x.GetAutoAck()), fmt.Sprint(x.GetExclusive()), x.GetActivity(),
		fmt.Sprint(x.GetUnsettled()), fmt.Sprint(x.GetBuffered()), time.UnixMilli(x.GetConsumingSinceMs()).UTC().Format(time.RFC3339),
	}
}
