package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/backup/online"
	"github.com/quorate/quorate/client"
)

// errCancelled ends a backup or restore whose operation was cancelled.
var errCancelled = errors.New("the operation was cancelled")

// maxNamedQueues is how many chosen queues the target of an operation names.
const maxNamedQueues = 3

// scopeVHost returns the only vhost of a backup or restore; "": all. Without chosen queues only the command line counts: a
// context's vhost must not make a backup of a part out of what looks like one of the cluster.
func scopeVHost(s *session, queues []string) string {
	if len(queues) > 0 || s.vhostGiven {
		return s.vhost
	}
	return ""
}

// scopeOf says in words what a backup has, or what is restored.
func scopeOf(s *session, queues []string) string {
	vhost := scopeVHost(s, queues)
	switch {
	case len(queues) > maxNamedQueues:
		return fmt.Sprintf("%d queues in vhost %q", len(queues), s.vhostOrDefault())
	case len(queues) > 0:
		return fmt.Sprintf("queues %q in vhost %q", queues, s.vhostOrDefault())
	case vhost != "":
		return fmt.Sprintf("vhost %q", vhost)
	}
	return "all"
}

// maxTargetBytes is as much as a node takes.
const maxTargetBytes = 1024

// cutTarget makes text of what an operation works on: names of places may have any bytes.
func cutTarget(s string) string {
	s = strings.ToValidUTF8(s, "?")
	return strings.ToValidUTF8(s[:min(len(s), maxTargetBytes)], "")
}

// asOperation does a job that the cluster shows as an operation, and ends it when that is cancelled.
func (s *session) asOperation(ctx context.Context, cmd *cobra.Command, c *client.Client, kind client.JobKind, target string, do func(context.Context, func(online.Progress)) error) error {
	j, err := c.FollowJob(ctx, client.JobRef{Kind: kind, Target: cutTarget(target)})
	if err != nil {
		return err
	}
	if id := j.Operation(); id != "" {
		printf(cmd.ErrOrStderr(), "operation %s\n", id)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-j.Cancelled():
			cancel(errCancelled)
		case <-done:
		}
	}()
	err = do(ctx, func(p online.Progress) {
		detail := p.Queue
		if p.Waits != nil {
			detail += " waits: " + p.Waits.Error()
			s.progress(cmd, "%s", detail)
		}
		j.Report(client.JobProgress{Phase: "messages", Done: int64(p.Messages), Total: int64(max(p.Messages, p.AllMessages)), Unit: "messages", Detail: detail})
		s.progress(cmd, "%d of %d queues, %d of %d messages", p.Queues, p.AllQueues, p.Messages, max(p.Messages, p.AllMessages))
	})
	if err != nil && errors.Is(context.Cause(ctx), errCancelled) {
		err = errCancelled
	}
	j.End(err)
	return err
}
