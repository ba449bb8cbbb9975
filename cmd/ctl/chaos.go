package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/chaos/command"
)

// newChaos groups `quoratectl chaos`.
func newChaos() *cobra.Command {
	cmd := &cobra.Command{Use: "chaos", Short: "Put faults into a cluster, and judge what its clients saw"}
	cmd.AddCommand(newChaosRun(), newChaosList(), newChaosCheck())
	return cmd
}

// chaosFlags adds the flags that say which cluster is meant.
func chaosFlags(cmd *cobra.Command, o *command.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Target, "target", "", "how nodes are run or reached, see quoratectl chaos list; default processes")
	f.IntVar(&o.Nodes, "nodes", 3, "number of nodes of a cluster that is made, 1 to 7")
	f.StringVar(&o.Binary, "binary", "", "program of the nodes that are made; default: quorate beside this program, or on PATH")
	f.StringVar(&o.Other, "other", "", "program of another build, for the fault build")
}

// newChaosRun makes `chaos run`.
func newChaosRun() *cobra.Command {
	var o command.Options
	cmd := &cobra.Command{
		Use: "run", Short: "Publish and consume while faults hit nodes, then judge the history", Args: exactArgs(),
		Example: "  quoratectl chaos run --time 1m --seed 7\n" +
			"  quoratectl chaos run --faults kill,pause --workloads publish\n" +
			"  quoratectl chaos run --replay /tmp/quorate-chaos-1234",
		RunE: func(cmd *cobra.Command, _ []string) error { return runChaos(cmd, &o, command.Run) },
	}
	chaosFlags(cmd, &o)
	f := cmd.Flags()
	f.StringSliceVar(&o.Faults, "faults", nil, "names of faults, with commas between; default: all that can be put in")
	f.StringSliceVar(&o.Workloads, "workloads", nil, "names of workloads, with commas between; default: all")
	f.DurationVar(&o.Length, "time", time.Minute, "how long messages are published")
	f.Uint64Var(&o.Seed, "seed", 1, "decides the schedule of faults")
	f.IntVar(&o.Rate, "rate", 0, "messages per second of each workload; 0: what each kind says")
	f.StringVar(&o.Out, "out", "", "directory for the history and what else the run leaves; default: a new one")
	f.StringVar(&o.Replay, "replay", "", "directory that a run left: take its seed, schedule and workloads")
	f.BoolVar(&o.Stop, "stop", false, "end the publishing when the history so far breaks a guarantee")
	f.BoolVar(&o.Strict, "strict", false, "fail if nothing shows that a kind of fault was felt")
	f.BoolVar(&o.Soak, "soak", false, "run seed after seed until interrupted, and keep what failing runs left")
	return cmd
}

// newChaosList makes `chaos list`.
func newChaosList() *cobra.Command {
	var o command.Options
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List targets, faults and workloads, and why some cannot be had", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runChaos(cmd, &o, command.List) },
	}
	chaosFlags(cmd, &o)
	return cmd
}

// newChaosCheck makes `chaos check`.
func newChaosCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Judge the history in a file, or in a directory that a run left", Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return command.Check(args[0], cmd.OutOrStdout()) },
	}
}

// runChaos gives a command what the options do not have from flags.
func runChaos(cmd *cobra.Command, o *command.Options, do func(context.Context, command.Options) error) error {
	o.Output, o.Args = cmd.OutOrStdout(), os.Args[1:]
	return do(cmd.Context(), *o)
}
