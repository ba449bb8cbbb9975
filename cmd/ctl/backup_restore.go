package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/backup/online"
	"github.com/quorate/quorate/client"
)

// newBackupRestore makes `backup restore`. It may run for long, so only a --timeout that is given bounds it.
func newBackupRestore(s *session) *cobra.Command {
	job := online.Restore{}
	var resume, typed string
	cmd := &cobra.Command{
		Use: "restore PLACE", Short: "Create what a backup has and the cluster lacks, and store its messages", Args: exactArgs("PLACE"),
		Long: "Create the definitions of a backup that the cluster lacks, and store its messages in their queues, behind those\n" +
			"that they have. Messages keep their deaths, delivery counts and ages. With --vhost, only what was in that vhost.\n" +
			"Queues that hold messages or have consumers take messages only with --confirm: what is still there, or was consumed\n" +
			"since, would come once more. If the command is cut short, --resume stores what is missing, for a day. The exit code\n" +
			"is 3 if a queue refused messages, or could not be restored while others were.",
		Example: "  quoratectl backup restore orders.tar --dry-run\n" +
			"  quoratectl backup restore orders.tar --queue paid --as paid-again",
	}
	p := newPlace(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&job.Queues, "queue", nil, "restore this queue; repeatable")
	f.StringVar(&job.As, "as", "", "restore the chosen queue under this name")
	f.StringVar(&job.Into, "into-vhost", "", "restore the queues into this vhost, which must exist; default: where they were")
	f.BoolVar(&job.NoDefinitions, "no-definitions", false, "restore messages into queues that exist")
	f.BoolVar(&job.DryRun, "dry-run", false, "check the backup and the cluster, and change nothing")
	f.StringVar(&resume, "resume", "", "go on with the restore of this name, which it printed")
	f.StringVar(&typed, "confirm", "", "the cluster's name: store messages that may be there already, in queues that are in use or after a day")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, c, end, err := s.begin(cmd)
		if err != nil {
			return err
		}
		defer end()
		if job.From, err = p.open(ctx, args[0]); err != nil {
			return err
		}
		job.Client, job.VHost, job.Run = c, scopeVHost(s, job.Queues), resume
		if job.Run == "" {
			job.Run = online.NewRun(time.Now())
		}
		if err := s.mayRestore(ctx, cmd, &job, resume != "", typed); err != nil {
			return errors.Join(err, job.From.Close())
		}
		return s.restore(ctx, cmd, &job, scopeOf(s, job.Queues)+" from "+args[0])
	}
	return cmd
}

// maxNamedInUse bounds how many queues in use are named.
const maxNamedInUse = 10

// mayRestore refuses a restore that may store messages twice, unless the person has typed the cluster's name. Of a dry run it
// only prints that.
func (s *session) mayRestore(ctx context.Context, cmd *cobra.Command, job *online.Restore, resumed bool, typed string) error {
	status, err := job.Client.ClusterStatus(ctx)
	switch {
	case err != nil:
		return err
	case typed == status.Cluster:
		return nil
	case typed != "":
		return usageError{fmt.Errorf("--confirm is %q, and the cluster is %q: look at the addresses", typed, status.Cluster)}
	}
	var why string
	if resumed {
		why = tooLate(cmd, job.Run)
	} else if used, err := job.InUse(ctx); err != nil {
		return err
	} else if n := len(used); n > 0 {
		more := ""
		if n > maxNamedInUse {
			used, more = used[:maxNamedInUse], fmt.Sprintf(" and %d more queues are in use", n-maxNamedInUse)
		}
		why = strings.Join(used, ", ") + more + ": what the backup has of them would come once more, although it is still there or was consumed since; " +
			"look at --dry-run, and restore beside them with --queue and --as or --into-vhost"
	}
	switch {
	case why == "":
		return nil
	case job.DryRun:
		printf(cmd.ErrOrStderr(), "the restore needs --confirm %s: %s\n", status.Cluster, why)
		return nil
	}
	return usageError{fmt.Errorf("%s, or give --confirm %s", why, status.Cluster)}
}

// tooLate returns why a restore is not continued: its queues may have forgotten what they have. "": they have not, as
// far as the name shows. It warns of a name that does not show when the restore began.
func tooLate(cmd *cobra.Command, run string) string {
	age, known := online.RunAge(run, time.Now())
	switch {
	case !known:
		printf(cmd.ErrOrStderr(), "warning: the name %s does not say when the restore began: after %v, messages that are stored already are stored again\n", run, online.Resumable)
	case age > online.Resumable:
		return fmt.Sprintf("restore %s began %v ago, and queues remember for %v which of its messages they have: they would be stored again; "+
			"restore the queues that are missing with --queue and without --resume, after a purge of those that have a part", run, age.Round(time.Minute), online.Resumable)
	}
	return ""
}

// restore restores, closes the backup, and prints what was restored.
func (s *session) restore(ctx context.Context, cmd *cobra.Command, job *online.Restore, target string) (err error) {
	if !job.DryRun {
		printf(cmd.ErrOrStderr(), "restore %s\n", job.Run)
	}
	for _, q := range job.From.Manifest.Missing {
		printf(cmd.ErrOrStderr(), "the backup lacks %s\n", q)
	}
	var done []online.RestoredQueue
	job.Seen = func(q online.RestoredQueue) { done = append(done, q) }
	job.Imported = func(n client.ImportSummary) {
		printf(cmd.ErrOrStderr(), "definitions: %d created, %d unchanged, %d different, %d refused, %d failed\n",
			n.Created, n.Unchanged, n.Different, n.Refused, n.Failed)
	}
	execute := func(ctx context.Context, seen func(online.Progress)) error {
		job.Progress = seen
		return job.Execute(ctx)
	}
	if job.DryRun {
		err = execute(ctx, func(online.Progress) {})
	} else {
		err = s.asOperation(ctx, cmd, job.Client, client.RestoreJob, target, execute)
	}
	err = errors.Join(err, job.From.Close())
	return s.concludeRestore(cmd, done, err)
}

// concludeRestore prints what was restored, also before an error.
func (s *session) concludeRestore(cmd *cobra.Command, done []online.RestoredQueue, err error) error {
	refused, missing := uint64(0), 0
	for _, q := range done {
		refused += q.Refused
		if q.Problem == "" {
			continue
		}
		printf(cmd.ErrOrStderr(), "not restored: %s\n", q.Problem)
		if q.Messages > 0 {
			missing++
		}
	}
	if len(done) > 0 || err == nil {
		header := []string{"vhost", "queue", "messages", "stored", "refused"}
		err = errors.Join(printList(s, cmd.OutOrStdout(), header, done, func(q online.RestoredQueue) []string {
			return []string{q.VHost, q.Queue, fmt.Sprint(q.Messages), fmt.Sprint(q.Stored), fmt.Sprint(q.Refused)}
		}), err)
	}
	if err != nil {
		return err
	}
	var lacks []error
	if refused > 0 {
		lacks = append(lacks, fmt.Errorf("limits of queues refused %d messages; they are still in the backup", refused))
	}
	if missing > 0 {
		lacks = append(lacks, fmt.Errorf("%d queues are not restored: see above", missing))
	}
	if len(lacks) == 0 {
		return nil
	}
	return partDoneError{errors.Join(lacks...)}
}
