package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/checks"
)

// newNodes groups `quoratectl nodes`.
func newNodes(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "nodes", Aliases: []string{"node"}, Short: "Show nodes, drain them, remove them from the cluster"}
	cmd.AddCommand(newNodesList(s), newNodesStatus(s), newNodesCounters(s), newNodesDrain(s), newNodesUndrain(s), newNodesReplace(s), newNodesForget(s))
	return cmd
}

// newNodesList makes `nodes ls`.
func newNodesList(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the nodes and their states", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				st, err := c.ClusterDetails(ctx)
				if err != nil {
					return err
				}
				return printList(s, cmd.OutOrStdout(), []string{"node", "clients", "version", "reads", "state", "replicas", "leaders", "clock"}, st.Nodes, nodeRow)
			})
		},
	}
}

func nodeRow(n client.ClusterNode) []string {
	return []string{n.ID, n.ClientAddress, n.Version, readsText(n), checks.NodeState(n), fmt.Sprint(n.Replicas), fmt.Sprint(n.Leaders), clockText(n.Clock)}
}

// clockText shows how far a node's wall clock is from the time of the cluster.
func clockText(c *client.ClockStatus) string {
	if c == nil {
		return "-"
	}
	offset := c.Offset
	if offset.Abs() < 10*time.Second {
		offset = offset.Round(time.Millisecond)
	} else {
		offset = offset.Round(time.Second)
	}
	text := offset.String()
	if offset >= 0 {
		text = "+" + text
	}
	if c.Off {
		text += " off"
	}
	return text
}

// readsText is "-" for a node that does not answer.
func readsText(n client.ClusterNode) string {
	if n.Start == nil {
		return "-"
	}
	return fmt.Sprint(max(n.ReadsVersion, 1))
}

// newNodesStatus makes `nodes status`.
func newNodesStatus(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "status [NODE]", Short: "Show the progress of starting nodes, with a bar for each", Args: optionalArg("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				st, err := c.ClusterDetails(ctx)
				if err != nil {
					return err
				}
				nodes := slices.DeleteFunc(st.Nodes, func(n client.ClusterNode) bool { return len(args) == 1 && args[0] != n.ID })
				if len(nodes) == 0 {
					return fmt.Errorf("node %q is not in the cluster: see quoratectl nodes ls", args[0])
				}
				return printList(s, cmd.OutOrStdout(), []string{"node", "state", "start"}, nodes, func(n client.ClusterNode) []string {
					return []string{n.ID, checks.NodeState(n), startBar(n.Start)}
				})
			})
		},
	}
}

// newNodesCounters makes `nodes counters`.
func newNodesCounters(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "counters", Short: "Show the counters of each node since its start, and their sum", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				st, err := c.ClusterDetails(ctx)
				if err != nil {
					return err
				}
				return s.printCounters(cmd.OutOrStdout(), st.Nodes)
			})
		},
	}
}

// printCounters writes a column for each node, or a list of their counters; null for a node that does not answer.
func (s *session) printCounters(w io.Writer, nodes []client.ClusterNode) error {
	header, sums := []string{"counter"}, map[string]uint64{}
	list := make([]map[string]any, 0, len(nodes))
	for _, n := range nodes {
		header = append(header, n.ID)
		for name, count := range n.Counters {
			sums[name] += count
		}
		one := map[string]any{"id": n.ID, "counters": nil}
		if n.Start != nil {
			one["counters"] = n.Counters
		}
		list = append(list, one)
	}
	if s.output != outputTable {
		return s.encode(w, list)
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		row := []string{name}
		for _, n := range nodes {
			row = append(row, counterText(n, name))
		}
		rows = append(rows, append(row, fmt.Sprint(sums[name])))
	}
	return printRows(w, append(header, "sum"), rows...)
}

// counterText is "-" for a node that does not answer.
func counterText(n client.ClusterNode, name string) string {
	if n.Start == nil {
		return "-"
	}
	return fmt.Sprint(n.Counters[name])
}

// startBar shows the progress of a start.
func startBar(p *client.StartProgress) string {
	if p == nil || p.Total == 0 {
		return ""
	}
	percent := 100 * p.Done / p.Total
	full := int(percent) * barCells / 100
	return fmt.Sprintf("[%s%s] %d %%  %d of %d %s", strings.Repeat("#", full), strings.Repeat("-", barCells-full), percent, p.Done, p.Total, p.Unit)
}

// newNodesDrain makes `nodes drain`. With --remove it cannot be undone, so the node's name must be
// typed a second time.
func newNodesDrain(s *session) *cobra.Command {
	r := client.RemoveNodeRequest{}
	var remove bool
	var typed string
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Move all leadership off a node, which accepts no new work until nodes undrain or its restart; or remove it for good", Args: exactArgs("NODE"),
		Example: "  quoratectl nodes drain node-5\n  quoratectl nodes drain node-5 --remove --exclude node-4 --confirm node-5",
	}
	j := newJob(s, cmd, true)
	cmd.Flags().BoolVar(&remove, "remove", false, "let other nodes take its place in queues, then remove it from the cluster for good")
	cmd.Flags().StringSliceVar(&r.Exclude, "exclude", nil, "with --remove: nodes that must not take its place, such as those to be removed next")
	cmd.Flags().StringVar(&typed, "confirm", "", "with --remove: the node's name again")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !remove && (j.dryRun || len(r.Exclude) > 0 || typed != ""):
			return usageError{errors.New("--dry-run, --exclude and --confirm go with --remove")}
		case remove && !j.dryRun && typed != args[0]:
			return usageError{fmt.Errorf("node %q would be removed for good: look at --dry-run, then give --confirm %s", args[0], args[0])}
		}
		r.Node, r.DryRun = args[0], j.dryRun
		if remove {
			j.beside = r.Node
		}
		return j.run(cmd, func(ctx context.Context, c *client.Client) (client.StartedOperation, error) {
			if remove {
				return c.RemoveNode(ctx, r)
			}
			o, err := c.StartDrain(ctx, client.StartDrainRequest{Node: args[0]})
			return client.StartedOperation{Operation: &o}, err
		})
	}
	return cmd
}

// newNodesUndrain makes `nodes undrain`.
func newNodesUndrain(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "undrain NODE", Short: "Let a node that was drained take new work and lead again, without a restart", Args: exactArgs("NODE"),
		Example: "  quoratectl nodes undrain node-5",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				if err := c.Undrain(ctx, client.UndrainRequest{Node: args[0]}); err != nil {
					return err
				}
				return s.printWord(cmd.OutOrStdout(), "undrained", args[0])
			})
		},
	}
}

// newNodesForget makes `nodes forget`. It cannot be undone, so the node's name must be typed a
// second time.
func newNodesForget(s *session) *cobra.Command {
	r := client.ForgetNodeRequest{}
	var typed string
	cmd := &cobra.Command{
		Use: "forget NODE", Short: "Remove a node from the cluster for good", Args: exactArgs("NODE"),
		Example: "  quoratectl nodes forget node-2 --replace --dry-run\n  quoratectl nodes forget node-2 --replace --confirm node-2",
	}
	j := newJob(s, cmd, true)
	cmd.Flags().BoolVar(&r.Replace, "replace", false, "let other nodes take its place in queues first; without it the node must hold none")
	cmd.Flags().StringVar(&typed, "confirm", "", "the node's name again: the node can never come back under it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !j.dryRun && typed != args[0] {
			return usageError{fmt.Errorf("forgetting node %q cannot be undone: look at --dry-run, then give --confirm %s", args[0], args[0])}
		}
		r.Node, r.DryRun = args[0], j.dryRun
		return j.run(cmd, func(ctx context.Context, c *client.Client) (client.StartedOperation, error) {
			return c.ForgetNode(ctx, r)
		})
	}
	return cmd
}

// newNodesReplace makes `nodes replace`. The old store is given up for good (RE-9), so the node's
// name must be typed a second time.
func newNodesReplace(s *session) *cobra.Command {
	r := client.ReplaceNodeRequest{}
	var typed string
	cmd := &cobra.Command{
		Use: "replace NODE", Short: "Give up a node's stored data, so that it can come back under its name with an empty disk", Args: exactArgs("NODE"),
		Example: "  quoratectl nodes replace node-2 --dry-run\n  quoratectl nodes replace node-2 --confirm node-2",
	}
	j := newJob(s, cmd, true)
	cmd.Flags().BoolVar(&r.AcceptLoss, "accept-loss", false, "delete the queues of which no other node has a copy, with their messages")
	cmd.Flags().StringVar(&typed, "confirm", "", "the node's name again: its old disk can never come back")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !j.dryRun && typed != args[0] {
			return usageError{fmt.Errorf("the stored data of node %q would be given up for good: look at --dry-run, then give --confirm %s", args[0], args[0])}
		}
		r.Node, r.DryRun = args[0], j.dryRun
		return j.run(cmd, func(ctx context.Context, c *client.Client) (client.StartedOperation, error) {
			return c.ReplaceNode(ctx, r)
		})
	}
	return cmd
}
