package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newFinalize makes `cluster finalize`. It fails when nodes hold the version back, so that scripts
// notice.
func newFinalize(s *session) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "finalize", Short: "Complete an upgrade: from then on the cluster refuses older builds, which cannot read what it writes", Args: exactArgs(),
		Example: "  quoratectl cluster finalize --dry-run\n  quoratectl cluster finalize",
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
