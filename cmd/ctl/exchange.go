package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newExchange groups `quoratectl exchange`.
func newExchange(s *session) *cobra.Command {
	var x client.Exchange
	var arguments []string
	declare := &cobra.Command{
		Use: "declare EXCHANGE TYPE", Short: "Create an exchange (direct, fanout, topic, headers) unless it exists",
		Args: exactArgs("EXCHANGE", "TYPE"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			x.VHost, x.Name, x.Type = s.vhost, args[0], args[1]
			if x.Arguments, err = parseArguments(arguments); err != nil {
				return err
			}
			return s.change(cmd, "created", func(ctx context.Context, c *client.Client) (bool, error) { return c.DeclareExchange(ctx, x) })
		},
	}
	declare.Flags().StringSliceVarP(&arguments, "argument", "x", nil, "name=value, repeatable")
	declare.Flags().BoolVar(&x.AutoDelete, "auto-delete", false, "delete it with its last binding")
	declare.Flags().BoolVar(&x.Internal, "internal", false, "clients cannot publish to it")
	list := &cobra.Command{
		Use: "list", Short: "List exchanges", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				all, err := client.Collect(c.Exchanges(ctx, s.vhost))
				if err != nil {
					return err
				}
				return printList(s, cmd.OutOrStdout(), []string{"vhost", "exchange", "type"}, all, func(e client.ExchangeInfo) []string {
					return []string{e.VHost, e.Name, e.Type}
				})
			})
		},
	}
	cmd := &cobra.Command{Use: "exchange", Aliases: []string{"exchanges"}, Short: "Declare, delete and list exchanges"}
	cmd.AddCommand(declare, newExchangeDelete(s), list)
	return cmd
}

// newExchangeDelete makes `exchange delete`.
func newExchangeDelete(s *session) *cobra.Command {
	var unused bool
	remove := &cobra.Command{
		Use: "delete EXCHANGE", Short: "Delete an exchange and its bindings; it is no error if it does not exist", Args: exactArgs("EXCHANGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				return c.DeleteExchange(ctx, client.DeleteExchangeRequest{VHost: s.vhost, Name: args[0], IfUnused: unused})
			})
		},
	}
	remove.Flags().BoolVar(&unused, "if-unused", false, "refuse while it is the source of bindings")
	return s.dryRun(remove, s.exchangeLoss)
}

// newBinding groups `quoratectl binding`.
func newBinding(s *session) *cobra.Command {
	var b client.Binding
	var arguments []string
	add := &cobra.Command{
		Use: "add EXCHANGE DESTINATION [ROUTING-KEY]", Short: "Bind a queue, or with --to-exchange an exchange, to an exchange",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactArgs("EXCHANGE", "DESTINATION", "ROUTING-KEY")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			b.VHost, b.Source, b.Destination = s.vhost, args[0], args[1]
			if len(args) == 3 {
				b.RoutingKey = args[2]
			}
			if b.Arguments, err = parseArguments(arguments); err != nil {
				return err
			}
			return s.with(cmd, func(ctx context.Context, c *client.Client) error { return c.Bind(ctx, b) })
		},
	}
	bindingFlags(add, &b, &arguments)
	list := &cobra.Command{
		Use: "list", Short: "List bindings", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				all, err := client.Collect(c.Bindings(ctx, s.vhost))
				if err != nil {
					return err
				}
				rows := make([]bindingRow, len(all))
				for i, b := range all {
					rows[i] = bindingRow{b.VHost, b.Source, "queue", b.Destination, b.RoutingKey, b.Arguments}
					if b.ToExchange {
						rows[i].DestinationType = "exchange"
					}
				}
				return printList(s, cmd.OutOrStdout(), []string{"vhost", "exchange", "destination", "routing key"}, rows, func(b bindingRow) []string {
					return []string{b.VHost, b.Source, b.Destination, b.RoutingKey}
				})
			})
		},
	}
	cmd := &cobra.Command{Use: "binding", Aliases: []string{"bindings"}, Short: "Add, remove and list bindings"}
	cmd.AddCommand(add, newBindingRemove(s), list)
	return cmd
}

// bindingRow is a binding in JSON and YAML.
type bindingRow struct {
	VHost           string       `api:"vhost"`
	Source          string       `api:"source"`
	DestinationType string       `api:"destination_type"`
	Destination     string       `api:"destination"`
	RoutingKey      string       `api:"routing_key"`
	Arguments       client.Table `api:"arguments"`
}

func bindingFlags(cmd *cobra.Command, b *client.Binding, arguments *[]string) {
	cmd.Flags().StringSliceVarP(arguments, "argument", "x", nil, "name=value, repeatable")
	cmd.Flags().BoolVar(&b.ToExchange, "to-exchange", false, "DESTINATION is an exchange")
}

// newBindingRemove makes `binding remove`. It demands the key that `binding add` may leave out: what
// goes must be named in full.
func newBindingRemove(s *session) *cobra.Command {
	var b client.Binding
	var arguments []string
	remove := &cobra.Command{
		Use: "remove EXCHANGE DESTINATION ROUTING-KEY", Short: "Remove a binding; it is no error if it does not exist",
		Args: exactArgs("EXCHANGE", "DESTINATION", "ROUTING-KEY"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			b.VHost, b.Source, b.Destination, b.RoutingKey = s.vhost, args[0], args[1], args[2]
			if b.Arguments, err = parseArguments(arguments); err != nil {
				return err
			}
			return s.with(cmd, func(ctx context.Context, c *client.Client) error { return c.Unbind(ctx, b) })
		},
	}
	bindingFlags(remove, &b, &arguments)
	return s.dryRun(remove, s.bindingLoss(&b))
}

// diskText describes a node's disk in a word or two.
func diskText(d *client.DiskStatus) string {
	switch {
	case d == nil:
		return "?"
	case d.Hangs > 0:
		return fmt.Sprintf("hangs for %d ms", d.Hangs.Milliseconds())
	case d.Stopped > 0:
		return fmt.Sprintf("%s, %d MiB free, %d members stopped", d.Pressure, d.FreeBytes>>20, d.Stopped)
	default:
		return fmt.Sprintf("%s, %d MiB free", d.Pressure, d.FreeBytes>>20)
	}
}

// newCluster groups `quoratectl cluster`. `status` shows what one node knows, which may differ from
// node to node.
func newCluster(s *session) *cobra.Command {
	status := &cobra.Command{
		Use: "status", Short: "Show the nodes as one of them sees the cluster", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				st, err := c.ClusterStatus(ctx)
				if err != nil {
					return err
				}
				if s.output != outputTable {
					return s.encode(cmd.OutOrStdout(), plain(st))
				}
				rows := make([][]string, 0, len(st.Nodes))
				for _, n := range st.Nodes {
					role := ""
					if n.ID == st.CatalogLeader {
						role = "catalog leader"
					}
					rows = append(rows, []string{
						n.ID, n.ClientAddress, n.Version, fmt.Sprint(n.Alive), fmt.Sprint(n.Connected || n.ID == st.Node),
						fmt.Sprint(n.Replicas), fmt.Sprint(n.Leaders), diskText(n.Disk), role,
					})
				}
				printf(cmd.OutOrStdout(), "cluster %s as node %s sees it, version %d is finalised\n",
					st.Cluster, st.Node, st.FinalizedVersion)
				if why := st.Hindrance; why != "" {
					printf(cmd.OutOrStdout(), "node %s serves no clients: %s\n", st.Node, why)
				}
				header := []string{"node", "clients", "version", "alive", "connected", "replicas", "leaders", "disk", ""}
				return printRows(cmd.OutOrStdout(), header, rows...)
			})
		},
	}
	cmd := &cobra.Command{Use: "cluster", Short: "Look at the cluster"}
	cmd.AddCommand(status)
	return cmd
}
