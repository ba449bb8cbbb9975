package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/checks"
)

// newUpgrade groups `quoratectl upgrade`: what an operator asks before, during and after a roll of the nodes to
// another build.
func newUpgrade(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "upgrade", Short: "Take the cluster to a newer build, node by node, and back while that is possible"}
	cmd.AddCommand(newUpgradeStatus(s), newUpgradeCheck(s), newFinalize(s))
	return cmd
}

// newUpgradeStatus makes `upgrade status`.
func newUpgradeStatus(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show how far the upgrade is, whether there is a way back, and the next step", Args: exactArgs(), Example: "  quoratectl upgrade status",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				st, err := c.ClusterDetails(ctx)
				if err != nil {
					return err
				}
				u := progressOf(st)
				if s.output != outputTable {
					return s.encode(cmd.OutOrStdout(), plain(u))
				}
				printf(cmd.OutOrStdout(), "version %d of stored state is finalised, every node reads %d\n%s\nnext: %s\n", u.Finalized, u.Readable, u.WayBack, u.Next)
				return printList(s, cmd.OutOrStdout(), []string{"node", "build", "reads", "state"}, u.Nodes, func(n upgradeNode) []string {
					return []string{n.ID, n.Build, n.reads(), n.State}
				})
			})
		},
	}
}

// upgradeProgress is the progress of an upgrade.
type upgradeProgress struct {
	Finalized uint32        `api:"finalized_version"`
	Readable  uint32        `api:"readable_version"` // by every node; 0 while one does not answer
	WayBack   string        `api:"way_back"`
	Next      string        `api:"next"`
	Nodes     []upgradeNode `api:"nodes"`
}

// upgradeNode is a node's part in an upgrade.
type upgradeNode struct {
	ID    string `api:"id"`
	Build string `api:"build"`
	Reads uint32 `api:"reads_version"` // 0: it does not answer
	State string `api:"state"`
}

// reads is "-" for a node that does not answer.
func (n upgradeNode) reads() string {
	if n.Reads == 0 {
		return "-"
	}
	return fmt.Sprint(n.Reads)
}

// progressOf reads the progress of an upgrade from the state of the cluster, with details.
func progressOf(st client.ClusterStatus) upgradeProgress {
	u := upgradeProgress{Finalized: max(st.FinalizedVersion, 1)}
	var away []string
	for i, n := range st.Nodes {
		x := upgradeNode{ID: n.ID, Build: n.Version, State: checks.NodeState(n)}
		if n.Start != nil {
			x.Reads = max(n.ReadsVersion, 1)
		}
		if x.State != "running" {
			away = append(away, n.ID+" ("+x.State+")")
		}
		if i == 0 || x.Reads < u.Readable {
			u.Readable = x.Reads
		}
		u.Nodes = append(u.Nodes, x)
	}
	u.WayBack, u.Next = "there is no way back to a build that reads less than version "+fmt.Sprint(u.Finalized), u.next(checks.Builds(st.Nodes), away)
	return u
}

// next names the operator's next step.
func (u *upgradeProgress) next(builds, away []string) string {
	switch {
	case len(away) > 0:
		return fmt.Sprintf("see that these nodes run before another one is taken down: %q", away)
	case len(builds) > 1:
		return fmt.Sprintf("nodes run %q: take the next node to the newer build, after quoratectl upgrade check NODE", builds)
	case u.Readable > u.Finalized:
		return "quoratectl upgrade finalize, when the new build is to stay; until then every node can go back"
	}
	return "nothing: the cluster is whole and runs one build"
}

// newUpgradeCheck makes `upgrade check`.
func newUpgradeCheck(s *session) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use: "check [NODE]", Short: "May the node be taken down now, or any one node? Exit code 1 if not", Args: optionalArg("NODE"),
		Example: "  quoratectl upgrade check\n  quoratectl upgrade check node-1 --wait 10m && quoratectl nodes drain node-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.check(cmd, args, f, func(ctx context.Context, l *look) ([]checks.Problem, error) {
				found, err := l.TakingDown(ctx)
				if err == nil && s.usesTLS() {
					found = append(found, l.certificates(ctx)...)
				}
				return found, err
			})
		},
	}
	f.addWithin(cmd)
	f.addWait(cmd)
	return cmd
}

// newFinalize makes `upgrade finalize`. It fails when nodes hold the version back, so that scripts notice.
func newFinalize(s *session) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "finalize", Short: "Complete an upgrade: from then on the cluster refuses older builds, which cannot read what it writes", Args: exactArgs(),
		Example: "  quoratectl upgrade finalize --dry-run\n  quoratectl upgrade finalize",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				r, err := c.FinalizeVersion(ctx, client.FinalizeVersionRequest{DryRun: dryRun})
				if err != nil {
					return err
				}
				if err := s.printFinalized(cmd.OutOrStdout(), r, dryRun); err != nil || len(r.Held) == 0 {
					return err
				}
				return fmt.Errorf("version %d would not be finalised: version %d stays until these nodes are upgraded and run, or are forgotten",
					r.Finalized, r.Before)
			})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what holds it back and change nothing")
	return cmd
}

// printFinalized prints the version that is in force, or the nodes that hold it back.
func (s *session) printFinalized(w io.Writer, r client.VersionFinalized, dryRun bool) error {
	switch {
	case s.output != outputTable:
		return s.encode(w, plain(r))
	case len(r.Held) > 0:
		return printList(s, w, []string{"held back by", "build", "which"}, r.Held, func(h client.HeldVersion) []string {
			return []string{h.Node, h.Build, h.Reason}
		})
	case r.Before == r.Finalized:
		printf(w, "version %d is finalised already\n", r.Finalized)
	case dryRun:
		printf(w, "dry run: version %d would be finalised, and builds that read only up to %d refused; nothing was done\n", r.Finalized, r.Before)
	default:
		printf(w, "version %d is finalised\n", r.Finalized)
	}
	return nil
}
