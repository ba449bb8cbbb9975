package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/chaos/command"
)

// newChaos groups `quoratectl chaos`.
func newChaos(s *session) *cobra.Command {
	cmd := &cobra.Command{Use: "chaos", Short: "Put faults into a cluster, and judge what its clients saw"}
	cmd.AddCommand(newChaosRun(s), newChaosWatch(s), newChaosStop(), newChaosList(s), newChaosCheck())
	return cmd
}

// chaosFlags adds the flags that say which cluster is meant.
func chaosFlags(cmd *cobra.Command, o *command.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Target, "target", "", "how nodes are run or reached, see quoratectl chaos list; default processes")
	f.IntVar(&o.Nodes, "nodes", 3, "number of nodes of a cluster that is made, 1 to 7")
	f.StringVar(&o.Binary, "binary", "", "program of the nodes that are made; default: quorate beside this program, or on PATH")
	existingFlags(cmd, &o.Existing)
	f.StringVar(&o.Other, "other", "", "program of another build, for the fault build")
}

// newChaosRun makes `chaos run`.
func newChaosRun(s *session) *cobra.Command {
	var o command.Options
	cmd := &cobra.Command{
		Use: "run", Short: "Publish and consume while faults hit nodes, then judge the history", Args: exactArgs(),
		Example: "  quoratectl chaos run --time 1m --seed 7\n" +
			"  quoratectl chaos run --faults kill,pause --workloads publish\n" +
			"  quoratectl chaos run --target k8s --confirm prod-test --faults kill,rollout --user ops\n" +
			"  quoratectl chaos run --replay /tmp/quorate-chaos-1234",
		RunE: func(cmd *cobra.Command, _ []string) error { return runChaos(cmd, s, &o, command.Run) },
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
	f.Float64Var(&o.MaxPause, "max-pause", 0, "times that clients may pause as long as the limits for a quiet machine say; 0: 3, negative: pauses are not judged")
	f.BoolVar(&o.Stop, "stop", false, "end the publishing when the history so far breaks a guarantee")
	f.BoolVar(&o.Each, "each", false, "put every kind of fault in once, one after another, and end then")
	f.BoolVar(&o.Strict, "strict", false, "fail if nothing shows that a kind of fault was felt, or that queues of the workload resting hibernated")
	f.BoolVar(&o.Soak, "soak", false, "run seed after seed until interrupted, and keep what failing runs left")
	return cmd
}

// newChaosWatch makes `chaos watch`.
func newChaosWatch(s *session) *cobra.Command {
	var o command.Options
	cmd := &cobra.Command{
		Use: "watch", Short: "Publish and consume while something else happens to a cluster, then judge the history", Args: exactArgs(),
		Long: "Publish and consume, without faults, until SIGTERM or ctrl-c, chaos stop, or --time: while a cluster is upgraded, for\n" +
			"example. A line each second has the longest time without a confirm that a publisher of each class of clients saw\n" +
			"since the line before. Then the history is judged, as that of chaos run.",
		Example: "  quoratectl chaos watch --confirm staging -a node1:7070 --user ops --out watched\n  quoratectl chaos stop watched",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runChaos(cmd, s, &o, command.Watch) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Target, "target", "", "how nodes are reached: addresses or k8s; default addresses")
	existingFlags(cmd, &o.Existing)
	f.StringSliceVar(&o.Workloads, "workloads", []string{"publish"}, "names of workloads, with commas between")
	f.DurationVar(&o.Length, "time", time.Hour, "the longest time that messages are published")
	f.IntVar(&o.Rate, "rate", 0, "messages per second of each workload; 0: what each kind says")
	f.StringVar(&o.Out, "out", "", "directory for the history and what else the run leaves, which chaos stop names; default: a new one")
	return cmd
}

// newChaosStop makes `chaos stop`.
func newChaosStop() *cobra.Command {
	return &cobra.Command{
		Use: "stop DIR", Short: "End the publishing of the chaos watch that has this directory as --out", Args: exactArgs("DIR"),
		RunE: func(_ *cobra.Command, args []string) error { return command.Stop(args[0]) },
	}
}

// newChaosList makes `chaos list`.
func newChaosList(s *session) *cobra.Command {
	var o command.Options
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List targets, faults and workloads, and why some cannot be had", Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runChaos(cmd, s, &o, command.List) },
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

// existingFlags adds the flags for clusters that are already there.
func existingFlags(cmd *cobra.Command, e *command.Existing) {
	f := cmd.Flags()
	f.StringVar(&e.Confirm, "confirm", "", "name of the cluster that is already there, as its nodes report it")
	f.IntVar(&e.Nodes.HTTPPort, "http-port", 7073, "port of health and metrics on nodes' hosts, which show whether faults were felt")
	f.IntVar(&e.Nodes.AMQPPort, "amqp-port", 5672, "port of AMQP on nodes' hosts; 0: no AMQP clients")
	f.StringVar(&e.K8s.Context, "kube-context", "", "k8s: context of kubectl; default: the current one")
	f.StringVarP(&e.K8s.Namespace, "namespace", "n", "", "k8s: namespace of the pods; default: that of the context")
	f.StringVar(&e.K8s.StatefulSet, "stateful-set", "quorate", "k8s: name of the StatefulSet")
	f.StringVar(&e.K8s.Claim, "claim", "data", "k8s: name of the volume claims of data, for the fault wiped")
	f.StringVar(&e.K8s.PauseImage, "pause-image", "", "k8s: image with a shell for privileged pods that pause nodes, such as busybox:stable; default: none are paused")
	f.StringToStringVar(&e.SSH.Hosts, "host", nil, "ssh: what to connect to for a node, as NODE=USER@HOST; repeatable; default: the node's id")
	f.StringVar(&e.SSH.Unit, "unit", "", "ssh: systemd's unit of nodes; default quorate, unless there is --pid-file")
	f.StringVar(&e.SSH.PIDFile, "pid-file", "", "ssh: file on the hosts with the number of the node's process, instead of a unit")
	f.StringVar(&e.SSH.StartCommand, "start-command", "", "ssh: command that starts a node, with --pid-file")
	f.BoolVar(&e.SSH.Sudo, "sudo", false, "ssh: use sudo on the hosts")
	f.StringToStringVar(&e.Docker.Containers, "container", nil, "docker: container of a node, as NODE=NAME; repeatable; default: the node's id")
}

// runChaos gives a command what the options do not have from flags.
func runChaos(cmd *cobra.Command, s *session, o *command.Options, do func(context.Context, command.Options) error) error {
	o.Output, o.Args = cmd.OutOrStdout(), os.Args[1:]
	o.Existing.Nodes.Client = s.clientConfig()
	return do(cmd.Context(), *o)
}
