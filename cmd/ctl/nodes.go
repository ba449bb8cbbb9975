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
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

func newNodes(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "nodes", Aliases: []string{"node"}, Short: "Look at nodes, drain them, take them out of the cluster"}
	cmd.AddCommand(newNodesList(s), newNodesStatus(s), newNodesCounters(s), newNodesDrain(s), newNodesReplace(s), newNodesForget(s))
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
				return printList(s, cmd.OutOrStdout(), []string{"node", "clients", "version", "reads", "state", "replicas", "leaders", "clock"}, st.GetNodes(), nodeRow)
			})
		},
	}
}

func nodeRow(n *brokerv1.ClusterNode) []string {
	return []string{n.GetId(), n.GetClientAddress(), n.GetVersion(), readsText(n), nodeState(n), fmt.Sprint(n.GetReplicas()), fmt.Sprint(n.GetLeaders()), clockText(n.GetClock())}
}

// clockText tells how far a node's wall clock is from the time of the cluster.
func clockText(c *brokerv1.ClockStatus) string {
	if c == nil {
		return "-"
	}
	offset := time.Duration(c.GetOffsetUs()) * time.Microsecond
	if offset.Abs() < 10*time.Second {
		offset = offset.Round(time.Millisecond)
	} else {
		offset = offset.Round(time.Second)
	}
	text := offset.String()
	if offset >= 0 {
		text = "+" + text
	}
	if c.GetOff() {
		text += " off"
	}
	return text
}

// readsText is "-" for a node that does not answer.
func readsText(n *brokerv1.ClusterNode) string {
	if n.GetStart() == nil {
		return "-"
	}
	return fmt.Sprint(max(n.GetReadsVersion(), 1))
}

// startDone is the phase of a node that has started.
const startDone = "started"

// nodeState says how a node is, in a word or two.
func nodeState(n *brokerv1.ClusterNode) string {
	at := n.GetStart()
	switch {
	case n.GetRefused() != "":
		return "refused"
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
				nodes := slices.DeleteFunc(st.GetNodes(), func(n *brokerv1.ClusterNode) bool { return len(args) == 1 && args[0] != n.GetId() })
				if len(nodes) == 0 {
					return fmt.Errorf("node %q is not in the cluster: see quoratectl nodes ls", args[0])
				}
				return printList(s, cmd.OutOrStdout(), []string{"node", "state", "start"}, nodes, func(n *brokerv1.ClusterNode) []string {
					return []string{n.GetId(), nodeState(n), startBar(n.GetStart())}
				})
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
				return s.printCounters(cmd.OutOrStdout(), st.GetNodes())
			})
		},
	}
}

// printCounters writes a column for each node, or a list of their counters; null for a node that does not answer.
func (s *session) printCounters(w io.Writer, nodes []*brokerv1.ClusterNode) error {
	header, sums := []string{"counter"}, map[string]uint64{}
	list := make([]map[string]any, 0, len(nodes))
	for _, n := range nodes {
		header = append(header, n.GetId())
		for name, count := range n.GetCounters() {
			sums[name] += count
		}
		one := map[string]any{"id": n.GetId(), "counters": nil}
		if n.GetStart() != nil {
			one["counters"] = n.GetCounters()
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
	r := &brokerv1.RemoveNodeRequest{}
	var remove bool
	var typed string
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Move all leadership off a node, which takes no new work until it is restarted; or take it out for good", Args: exactArgs("NODE"),
		Example: "  quoratectl nodes drain node-5\n  quoratectl nodes drain node-5 --remove --exclude node-4 --confirm node-5",
	}
	j := newJob(s, cmd, true)
	cmd.Flags().BoolVar(&remove, "remove", false, "let other nodes take its place in queues, then take it out of the cluster for good")
	cmd.Flags().StringSliceVar(&r.Exclude, "exclude", nil, "with --remove: nodes that do not take its place, such as those that go next")
	cmd.Flags().StringVar(&typed, "confirm", "", "with --remove: the node's name once more")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !remove && (j.dryRun || len(r.Exclude) > 0 || typed != ""):
			return usageError{errors.New("--dry-run, --exclude and --confirm go with --remove")}
		case remove && !j.dryRun && typed != args[0]:
			return usageError{fmt.Errorf("node %q is taken out for good: look at --dry-run, then say --confirm %s", args[0], args[0])}
		}
		r.Node, r.DryRun = args[0], j.dryRun
		return j.run(cmd, func(ctx context.Context, c *client.Client) (*brokerv1.StartOperationResponse, error) {
			if remove {
				return c.RemoveNode(ctx, r)
			}
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

func newNodesReplace(s *session) *cobra.Command {
	r := &brokerv1.ReplaceNodeRequest{}
	var typed string
	cmd := &cobra.Command{
		Use: "replace NODE", Short: "Give up what a node had stored, so that it comes back under its name with an empty disk", Args: exactArgs("NODE"),
		Example: "  quoratectl nodes replace node-2 --dry-run\n  quoratectl nodes replace node-2 --confirm node-2",
	}
	j := newJob(s, cmd, true)
	cmd.Flags().BoolVar(&r.AcceptLoss, "accept-loss", false, "delete queues that no other node has a copy of, with their messages")
	cmd.Flags().StringVar(&typed, "confirm", "", "the node's name once more: its old disk never comes back")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !j.dryRun && typed != args[0] {
			return usageError{fmt.Errorf("what node %q had stored is given up for good: look at --dry-run, then say --confirm %s", args[0], args[0])}
		}
		r.Node, r.DryRun = args[0], j.dryRun
		return j.run(cmd, func(ctx context.Context, c *client.Client) (*brokerv1.StartOperationResponse, error) {
			return c.ReplaceNode(ctx, r)
		})
	}
	return cmd
}
