package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// newOperations groups `quoratectl operations`.
func newOperations(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "operations", Aliases: []string{"operation", "ops"}, Short: "List, watch and cancel long jobs"}
	cmd.AddCommand(newOperationsList(s), newOperationsWatch(s), newOperationsCancel(s))
	return cmd
}

// newOperationsList makes `operations ls`. Nodes that do not answer are named on standard error,
// and the list is of the others.
func newOperationsList(s *session) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the running operations of all nodes; --all adds those that have ended", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				listed, err := collectAnswered(cmd, c.Operations(ctx, client.ListOperationsRequest{Running: !all}), "its operations are missing")
				if err != nil {
					return err
				}
				return printList(s, cmd.OutOrStdout(), operationHeader(), listed, operationRow)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list operations that have ended, as long as their nodes remember them")
	return cmd
}

// newOperationsWatch makes `operations watch`. Ctrl-C ends the watching, not the operation.
func newOperationsWatch(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "watch OPERATION", Short: "Show an operation until it has ended; ctrl-c leaves it running", Args: exactArgs("OPERATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			return s.follow(cmd.Context(), cmd, c, client.Operation{ID: args[0]})
		},
	}
}

// newOperationsCancel makes `operations cancel`. It waits for the end, since an operation may
// succeed before the cancel reaches it.
func newOperationsCancel(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "cancel OPERATION", Short: "Cancel an operation; what it has changed stays", Args: exactArgs("OPERATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd, func(ctx context.Context, c *client.Client) error {
				if _, err := c.CancelOperation(ctx, args[0]); err != nil {
					return err
				}
				end, err := c.WatchOperation(ctx, args[0], nil)
				if err != nil {
					return err
				}
				return s.printOperation(cmd.OutOrStdout(), end)
			})
		},
	}
}

// job holds the flags of commands that start an operation.
type job struct {
	s      *session
	noWait bool
	wait   bool
	dryRun bool
	// beside is a node that must not be asked, because it cannot do the job to itself; "": none.
	beside string
}

// newJob adds the flags; dryRun reports whether the operation can be planned without being started.
func newJob(s *session, cmd *cobra.Command, dryRun bool) *job {
	j := &job{s: s}
	cmd.Flags().BoolVar(&j.wait, "wait", true, "watch the operation until it has ended")
	cmd.Flags().BoolVar(&j.noWait, "no-wait", false, "print the operation and do not wait for it")
	if dryRun {
		cmd.Flags().BoolVar(&j.dryRun, "dry-run", false, "print what would be done and change nothing")
	}
	return j
}

// run starts the operation and, unless a flag prevents it, watches it.
func (j *job) run(cmd *cobra.Command, start func(context.Context, *client.Client) (client.StartedOperation, error)) error {
	if j.noWait && j.wait && cmd.Flags().Changed("wait") {
		return usageError{errors.New("--wait and --no-wait exclude each other")}
	}
	c, err := j.open(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), j.s.timeout)
	r, err := start(ctx, c)
	cancel()
	switch {
	case err != nil:
		return err
	case j.dryRun:
		return j.s.printPlan(cmd.OutOrStdout(), r)
	case j.noWait || !j.wait:
		return j.s.printOperation(cmd.OutOrStdout(), *r.Operation)
	}
	return j.s.follow(cmd.Context(), cmd, c, *r.Operation)
}

// open returns a client of the nodes that can do the job.
func (j *job) open(cmd *cobra.Command) (*client.Client, error) {
	if j.beside != "" {
		return j.s.openBeside(cmd, j.beside)
	}
	return j.s.open(cmd)
}
