package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newConnection groups `quoratectl connection`.
func newConnection(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "connection", Aliases: []string{"connections"}, Short: "List and close clients' connections"}
	cmd.AddCommand(newConnectionList(s), newConnectionClose(s))
	return cmd
}

// newConnectionList makes `connection list`. Nodes that do not answer are named on standard error,
// and the list is of the others.
func newConnectionList(s *session) *cobra.Command {
	r := client.ListConnectionsRequest{}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the connections of clients to all nodes, of all vhosts without --vhost", Args: exactArgs(),
		Long: "List the connections of clients to all nodes. AMQP connections appear once they have logged in.\n" +
			"Over gRPC each call logs in: users and vhosts are those of the calls so far.",
		Example: "  quoratectl connection list --of guest --vhost orders",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				r.VHost = s.vhost
				all, err := collectAnswered(cmd, c.Connections(ctx, r), "its connections are missing")
				if err != nil {
					return err
				}
				header := []string{"id", "name", "protocol", "user", "vhost", "channels", "state", "client", "since", "received", "sent"}
				return printList(s, cmd.OutOrStdout(), header, all, connectionRow)
			})
		},
	}
	cmd.Flags().StringVar(&r.User, "of", "", "only connections of this user")
	return cmd
}

// connectionRow falls back to the product where the client gave its connection no name.
func connectionRow(x client.ConnectionInfo) []string {
	protocol, name := x.Protocol, x.ClientName
	if x.TLS {
		protocol += "/TLS"
	}
	if name == "" {
		name = x.Product
	}
	return []string{
		x.ID, x.Name, protocol, x.User, x.VHost, fmt.Sprint(x.Channels), x.State, name,
		x.ConnectedAt.UTC().Format(time.RFC3339), fmt.Sprint(x.ReceivedBytes), fmt.Sprint(x.SentBytes),
	}
}

// newConnectionClose makes `connection close`, for administrators.
func newConnectionClose(s *session) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use: "close ID|NAME", Short: "Close a connection; its client receives the reason", Args: exactArgs("ID|NAME"),
		Example: "  quoratectl connection close node-1/3/17 --reason 'the node is being replaced'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				return c.CloseConnection(ctx, client.CloseConnectionRequest{Connection: args[0], Reason: reason})
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason that the client receives; default, over AMQP: closed by an operator")
	return cmd
}
