package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newQueueMembers returns the commands that change which nodes hold queues (RE-3).
func newQueueMembers(s *session) []*cobra.Command {
	return []*cobra.Command{
		newMembers(s), newGrow(s), newShrink(s), newRebalance(s), newAddMember(s), newRemoveMember(s), newReplaceMember(s), newTransfer(s),
	}
}

// filterFlags add the flags that choose queues by pattern.
func filterFlags(cmd *cobra.Command, f *client.QueueFilter) {
	cmd.Flags().StringVar(&f.Pattern, "queues", "", "only queues with a matching name, with *, ? and [a-z]; default: all")
	cmd.Long = cmd.Short + ".\nThe queues of all vhosts count, with --vhost those of one; the vhost of a context does not count."
}

// choose completes the filter with the vhost, and prints what it covers: whether there is a vhost depends on the command line
// and the context, and a plan without changes names no queue.
func (s *session) choose(cmd *cobra.Command, f *client.QueueFilter) {
	f.VHost = s.onlyVHost(cmd)
	queues, vhosts := "all queues", "all vhosts"
	if f.Pattern != "" {
		queues = fmt.Sprintf("queues %q", f.Pattern)
	}
	if f.VHost != "" {
		vhosts = fmt.Sprintf("vhost %q", f.VHost)
	}
	printf(cmd.ErrOrStderr(), "%s in %s\n", queues, vhosts)
}

// newGrow makes `queue grow`.
func newGrow(s *session) *cobra.Command {
	r := client.GrowQueuesRequest{}
	cmd := &cobra.Command{
		Use: "grow NODE", Short: "Make a node a member of queues", Args: exactArgs("NODE"),
		Example: "  quoratectl queues grow node-4 --queues 'orders.*'",
	}
	j := newJob(s, cmd, true)
	filterFlags(cmd, &r.Queues)
	cmd.Flags().BoolVar(&r.EvenOnly, "even", false, "only queues with an even number of members")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.Node, r.DryRun = args[0], j.dryRun
		s.choose(cmd, &r.Queues)
		return j.run(cmd, func(ctx context.Context, c *client.Client) (client.StartedOperation, error) {
			return c.GrowQueues(ctx, r)
		})
	}
	return cmd
}

// newShrink makes `queue shrink`. It destroys copies, so it offers --dry-run.
func newShrink(s *session) *cobra.Command {
	r := client.ShrinkNodeRequest{}
	cmd := &cobra.Command{
		Use: "shrink NODE", Short: "Take a node out of queues; it loses its copies", Args: exactArgs("NODE"),
		Example: "  quoratectl queues shrink node-2 --keep-size --dry-run",
	}
	j := newJob(s, cmd, true)
	filterFlags(cmd, &r.Queues)
	cmd.Flags().StringSliceVar(&r.Exclude, "exclude", nil, "nodes that must not take its place, such as those to be removed next")
	cmd.Flags().BoolVar(&r.KeepSize, "keep-size", false, "let another node take its place in each queue, if there is one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.Node, r.DryRun = args[0], j.dryRun
		s.choose(cmd, &r.Queues)
		return j.run(cmd, func(ctx context.Context, c *client.Client) (client.StartedOperation, error) {
			return c.ShrinkNode(ctx, r)
		})
	}
	return cmd
}

// newRebalance makes `queue rebalance`.
func newRebalance(s *session) *cobra.Command {
	r := client.RebalanceQueuesRequest{}
	cmd := &cobra.Command{
		Use: "rebalance", Short: "Spread members and leaders of queues evenly over the nodes", Args: exactArgs(),
		Example: "  quoratectl queues rebalance --leaders-only --dry-run",
	}
	j := newJob(s, cmd, true)
	filterFlags(cmd, &r.Queues)
	cmd.Flags().BoolVar(&r.LeadersOnly, "leaders-only", false, "move leaders only, which sends no messages over the network")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r.DryRun = j.dryRun
		s.choose(cmd, &r.Queues)
		return j.run(cmd, func(ctx context.Context, c *client.Client) (client.StartedOperation, error) {
			return c.RebalanceQueues(ctx, r)
		})
	}
	return cmd
}

// newAddMember makes `queue add-member`.
func newAddMember(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "add-member QUEUE NODE", Short: "Make a node a member of a queue", Args: exactArgs("QUEUE", "NODE")}
	j := newJob(s, cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return j.run(cmd, func(ctx context.Context, c *client.Client) (client.StartedOperation, error) {
			return c.AddMember(ctx, client.AddMemberRequest{VHost: s.vhost, Queue: args[0], Node: args[1]})
		})
	}
	return cmd
}

// newRemoveMember makes `queue remove-member`.
func newRemoveMember(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "remove-member QUEUE NODE", Aliases: []string{"delete-member"},
		Short: "Take a node out of a queue; it loses its copy", Args: exactArgs("QUEUE", "NODE"),
	}
	j := newJob(s, cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return j.run(cmd, func(ctx context.Context, c *client.Client) (client.StartedOperation, error) {
			return c.RemoveMember(ctx, client.RemoveMemberRequest{VHost: s.vhost, Queue: args[0], Node: args[1], DryRun: j.dryRun})
		})
	}
	return cmd
}

// newReplaceMember makes `queue replace-member`. The new member has joined before the old one
// leaves, so the queue never has fewer copies; FROM = TO builds a copy anew.
func newReplaceMember(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "replace-member QUEUE FROM TO", Short: "Make one node a member of a queue, then take another out",
		Long: "Make one node a member of a queue, then take another out. With the same node twice, its\ncopy is deleted and rebuilt from the other members.",
		Args: exactArgs("QUEUE", "FROM", "TO"),
	}
	j := newJob(s, cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return j.run(cmd, func(ctx context.Context, c *client.Client) (client.StartedOperation, error) {
			return c.ReplaceMember(ctx, client.ReplaceMemberRequest{VHost: s.vhost, Queue: args[0], From: args[1], To: args[2], DryRun: j.dryRun})
		})
	}
	return cmd
}

// newMembers makes `queue members`.
func newMembers(s *session) *cobra.Command {
	r := client.ListQueueMembersRequest{}
	cmd := &cobra.Command{
		Use: "members QUEUE", Short: "Show each member of a queue as it sees itself", Args: exactArgs("QUEUE"),
		Long: "Show each member of a queue as it sees itself. With --digests each node computes a digest of its copy, which costs it as much as\n" +
			"a snapshot: at the same applied index all digests are equal. A member that is applying entries just then shows none.",
		Example: "  quoratectl queues members orders --digests",
		RunE: func(cmd *cobra.Command, args []string) error {
			r.VHost, r.Queue = s.vhost, args[0]
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				members, err := client.Collect(c.QueueMembers(ctx, r))
				if err != nil {
					return err
				}
				header := []string{"node", "state", "leader", "term", "applied", "digest", "trouble"}
				return printList(s, cmd.OutOrStdout(), header, members, memberRow)
			})
		},
	}
	cmd.Flags().BoolVar(&r.Digests, "digests", false, "compute a digest of each copy")
	return cmd
}

// digestShown is how many digits of a digest a table shows.
const digestShown = 16

func memberRow(m client.QueueMember) []string {
	term, applied := "", ""
	if m.Raft != nil {
		term, applied = fmt.Sprint(m.Raft.Term), fmt.Sprint(m.Raft.AppliedIndex)
	}
	return []string{m.Node, m.State, m.Leader, term, applied, m.Digest[:min(digestShown, len(m.Digest))], m.Trouble}
}

// newTransfer makes `queue transfer`.
func newTransfer(s *session) *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use: "transfer QUEUE", Aliases: []string{"transfer-leadership"}, Short: "Move a queue's leadership to another of its members", Args: exactArgs("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				return c.TransferLeadership(ctx, client.TransferLeadershipRequest{VHost: s.vhost, Queue: args[0], Node: node})
			})
		},
	}
	cmd.Flags().StringVar(&node, "to", "", "new leader; default: the present leader chooses")
	return cmd
}

// printPlan prints what would be done.
func (s *session) printPlan(w io.Writer, r client.StartedOperation) error {
	if s.output != outputTable {
		return s.encode(w, plain(r))
	}
	for _, line := range r.Plan {
		printf(w, "%s\n", line)
	}
	if more := r.PlanTotal - uint64(len(r.Plan)); more > 0 {
		printf(w, "and %d more\n", more)
	}
	_, err := fmt.Fprintf(w, "%d changes would be made; nothing was done\n", r.PlanTotal)
	return err
}
