package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/backup/archive"
)

// newBackupList makes `backup ls`, which asks no cluster.
func newBackupList(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls PLACE", Aliases: []string{"list"}, Args: exactArgs("PLACE"),
		Short: "List the backups in a directory, or under s3://BUCKET/PREFIX, newest first",
	}
	p := newPlace(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, k, err := p.reach(args[0])
		if err != nil {
			return err
		}
		all, err := at.Backups(cmd.Context(), k)
		if err != nil {
			return err
		}
		rows := make([]listedBackup, len(all))
		for i := range all {
			rows[i] = listBackup(&all[i])
		}
		return printList(s, cmd.OutOrStdout(), []string{"place", "state", "began", "cluster", "vhost", "queues", "messages", "bytes"}, rows, func(b listedBackup) []string {
			return []string{b.Place, b.State, b.Began, b.Cluster, b.VHost, fmt.Sprint(b.Queues), fmt.Sprint(b.Messages), fmt.Sprint(b.Bytes)}
		})
	}
	return cmd
}

// listedBackup is a backup as it is listed.
type listedBackup struct {
	Place    string `api:"place"`
	State    string `api:"state"` // complete, "lacks N queues", incomplete, or why it cannot be read
	Began    string `api:"began"`
	Cluster  string `api:"cluster"`
	VHost    string `api:"vhost"` // the only one; empty: all
	Queues   int    `api:"queues"`
	Messages uint64 `api:"messages"`
	Bytes    int64  `api:"bytes"` // as stored
}

// listBackup describes a backup.
func listBackup(f *archive.Found) listedBackup {
	out := listedBackup{Place: f.Location.Name, State: "complete"}
	switch {
	case f.Incomplete:
		out.State, out.Began = "incomplete", f.Changed.UTC().Format(time.RFC3339)
		return out
	case f.Manifest == nil:
		out.State = f.Err.Error()
		return out
	}
	m := f.Manifest
	if n := len(m.Missing); n > 0 {
		out.State = fmt.Sprintf("lacks %d queues", n)
	}
	out.Began, out.Cluster, out.VHost, out.Queues = m.Began.Format(time.RFC3339), m.Cluster, m.VHost, len(m.Queues)
	for i := range m.Queues {
		out.Messages += m.Queues[i].Messages
		for _, o := range m.Queues[i].Parts {
			out.Bytes += o.Bytes
		}
	}
	return out
}

// newBackupPrune makes `backup prune`, which asks no cluster.
func newBackupPrune(s *session) *cobra.Command {
	job := archive.Prune{}
	cmd := &cobra.Command{
		Use: "prune PLACE", Short: "Remove the oldest backups in a directory, or under s3://BUCKET/PREFIX", Args: exactArgs("PLACE"),
		Long: "Remove the oldest backups in a directory, or under s3://BUCKET/PREFIX, and keep the newest of each kind: backups of\n" +
			"different clusters, vhosts or chosen queues are of different kinds. Before backups of a kind are removed, the newest\n" +
			"is verified, or else the next, and it stays with all that are newer. If it lacks queues that could not be copied, the\n" +
			"newest one that lacks none stays, too. Incomplete backups are removed when nothing was written to them for a day.\n" +
			"Backups that cannot be read stay, and so do files of other programs. If no backup can be read, as with another\n" +
			"key, the command fails.",
		Example: "  quoratectl backup prune s3://backups/orders --keep 7 --key-file backup.key --dry-run",
	}
	p := newPlace(cmd)
	cmd.Flags().IntVar(&job.Keep, "keep", 0, "how many of each kind stay; required")
	cmd.Flags().BoolVar(&job.DryRun, "dry-run", false, "say what would be removed, and remove nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if job.Keep < 1 {
			return usageError{fmt.Errorf("--keep is %d: say how many backups stay, 1 or more", job.Keep)}
		}
		inBackground(cmd.Context())
		at, k, err := p.reach(args[0])
		if err != nil {
			return err
		}
		job.Place, job.Keys, job.Now = at, k, time.Now()
		job.Verifying = func(f archive.Found) { s.progress(cmd, "%s is verified", f.Location.Name) }
		verb := "removed"
		if job.DryRun {
			verb = "to be removed"
		}
		removed := 0
		job.Removed = func(f archive.Found) {
			removed++
			printf(cmd.OutOrStdout(), "%s: %s\n", verb, f.Location.Name)
		}
		if err := job.Execute(cmd.Context()); err != nil {
			return err
		}
		if removed == 0 {
			printf(cmd.OutOrStdout(), "nothing to remove\n")
		}
		return nil
	}
	return cmd
}
