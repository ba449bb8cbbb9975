package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

func newNodes(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "nodes", Aliases: []string{"node"}, Short: "Look at nodes, drain them, take them out of the cluster"}
	cmd.AddCommand(newNodesList(s), newNodesStatus(s), newNodesCounters(s), newNodesDrain(s), newNodesForget(s))
	return cmd
}

func newNodesList(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the nodes and how each of them is", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				st, err := c.ClusterDetails(ctx)
				if err != nil {
					return err
				}
				return printList(s, cmd.OutOrStdout(), []string{"node", "clients", "version", "state", "replicas", "leaders"}, st.GetNodes(), nodeRow)
			})
		},
	}
}

func nodeRow(n *brokerv1.ClusterNode) []string {
	return []string{n.GetId(), n.GetClientAddress(), n.GetVersion(), nodeState(n), fmt.Sprint(n.GetReplicas()), fmt.Sprint(n.GetLeaders())}
}

// startDone is the phase of a node that has started.
const startDone = "started"

// nodeState says how a node is, in a word or two.
func nodeState(n *brokerv1.ClusterNode) string {
	at := n.GetStart()
	switch {
	case at == nil && n.GetAlive():
		return "silent" // it gossips and does not answer
	case at == nil:
		return "down"
	case n.GetDraining():
		return "draining"
	case at.GetPhase() != startDone:
		return at.GetPhase()
	}
	return "running"
}

func newNodesStatus(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "status [NODE]", Short: "Show how far nodes that start have come, with a bar for each", Args: optionalArg("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				st, err := c.ClusterDetails(ctx)
				if err != nil {
					return err
				}
				var rows [][]string
				var messages []proto.Message
				for _, n := range st.GetNodes() {
					if len(args) == 1 && args[0] != n.GetId() {
						continue
					}
					rows, messages = append(rows, []string{n.GetId(), nodeState(n), startBar(n.GetStart())}), append(messages, n)
				}
				if len(rows) == 0 {
					return fmt.Errorf("node %q is not in the cluster: see quoratectl nodes ls", args[0])
				}
				return s.printRows(cmd.OutOrStdout(), []string{"node", "state", "start"}, rows, messages)
			})
		},
	}
}

func newNodesCounters(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "counters", Short: "Show what each node has counted since its start, and the sum", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				st, err := c.ClusterDetails(ctx)
				if err != nil {
					return err
				}
				header, sums := []string{"counter"}, map[string]uint64{}
				messages := make([]proto.Message, 0, len(st.GetNodes()))
				for _, n := range st.GetNodes() {
					header, messages = append(header, n.GetId()), append(messages, n)
					for name, count := range n.GetCounters() {
						sums[name] += count
					}
				}
				var rows [][]string
				for _, name := range slices.Sorted(maps.Keys(sums)) {
					row := []string{name}
					for _, n := range st.GetNodes() {
						row = append(row, counterText(n, name))
					}
					rows = append(rows, append(row, fmt.Sprint(sums[name])))
				}
				return s.printRows(cmd.OutOrStdout(), append(header, "sum"), rows, messages)
			})
		},
	}
}

// counterText is "-" for a node that does not answer.
func counterText(n *brokerv1.ClusterNode, name string) string {
	if n.GetStart() == nil {
		return "-"
	}
	return fmt.Sprint(n.GetCounters()[name])
}

// startBar shows how far a start is.
func startBar(p *brokerv1.StartProgress) string {
	if p.GetTotal() == 0 {
		return ""
	}
	percent := 100 * p.GetDone() / p.GetTotal()
	full := int(percent) * barCells / 100
	return fmt.Sprintf("[%s%s] %d %%  %d of %d %s", strings.Repeat("#", full), strings.Repeat("-", barCells-full), percent, p.GetDone(), p.GetTotal(), p.GetUnit())
}

func newNodesDrain(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Move all leadership off a node, which takes no new work until it is restarted", Args: exactArgs("NODE"),
	}
	j := newJob(s, cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return j.run(cmd, func(ctx context.Context, c *client.Client) (*brokerv1.StartOperationResponse, error) {
			o, err := c.StartDrain(ctx, args[0], 0)
			return &brokerv1.StartOperationResponse{Operation: o}, err
		})
	}
	return cmd
}

func newNodesForget(s *session) *cobra.Command {
	r := &brokerv1.ForgetNodeRequest{}
	var typed string
	cmd := &cobra.Command{
		Use: "forget NODE", Short: "Take a node out of the cluster for good", Args: exactArgs("NODE"),
		Example: "  quoratectl nodes forget node-2 --replace --dry-run\n  quoratectl nodes forget node-2 --replace --confirm node-2",
	}
	j := newJob(s, cmd, true)
	cmd.Flags().BoolVar(&r.Replace, "replace", false, "let other nodes take its place in queues first; without it the node must hold none")
	cmd.Flags().StringVar(&typed, "confirm", "", "the node's name once more: it never comes back under it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !j.dryRun && typed != args[0] {
			return usageError{fmt.Errorf("forgetting node %q cannot be undone: look at --dry-run, then say --confirm %s", args[0], args[0])}
		}
		r.Node, r.DryRun = args[0], j.dryRun
		return j.run(cmd, func(ctx context.Context, c *client.Client) (*brokerv1.StartOperationResponse, error) {
			return c.ForgetNode(ctx, r)
		})
	}
	return cmd
}
