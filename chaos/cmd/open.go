package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/target/local"
	"github.com/quorate/quorate/chaos/target/netns"
	"github.com/quorate/quorate/chaos/workload"
)

// Values of -target.
const (
	processes  = "processes"
	namespaces = "netns"
)

// opened is a cluster whose nodes are not started yet.
type opened struct {
	target.Cluster
	start func(context.Context) error
}

// open makes the cluster that -target names.
func open(ctx context.Context, o options) (opened, error) {
	switch o.target {
	case processes:
		nodes, err := chaos.NewCluster(chaos.ClusterConfig{Binary: o.binary, Dir: o.dir, Nodes: o.nodes})
		if err != nil {
			return opened{}, err
		}
		return opened{&local.Cluster{Cluster: nodes, Binary: o.binary, OtherBinary: o.other}, nodes.Start}, nil
	case namespaces:
		c, err := netns.Open(ctx, netns.Options{Binary: o.binary, OtherBinary: o.other, Dir: o.dir, Nodes: o.nodes})
		if err != nil {
			return opened{}, err
		}
		return opened{c, c.Cluster.Cluster.Start}, nil
	default:
		return opened{}, fmt.Errorf("there is no target %q: use %s or %s", o.target, processes, namespaces)
	}
}

// again runs this program once more inside namespaces, and returns its exit code.
func again(ctx context.Context) int {
	err := netns.Possible()
	if err == nil {
		err = netns.Again(ctx, os.Args[1:]...)
	}
	var ended *exec.ExitError
	switch {
	case err == nil:
		return exitValid
	case errors.As(err, &ended) && ended.Exited():
		return ended.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return exitFailed
	}
}

// list prints the kinds of faults, with why the target cannot have some, and the workloads.
func list(ctx context.Context, o options) int {
	if o.target == namespaces && !netns.Inside() {
		return again(ctx)
	}
	dir, err := os.MkdirTemp("", "quorate-chaos-")
	if err == nil {
		defer os.RemoveAll(dir) //nolint:errcheck // what is left is in the directory for such
		o.dir = dir
		var c opened
		if c, err = open(ctx, o); err == nil {
			printKinds(c)
			err = c.Close(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return exitFailed
	}
	return exitValid
}

func printKinds(c opened) {
	fmt.Println("faults:")
	for _, k := range fault.Kinds() {
		if err := k.Needs(c.Cluster); err != nil {
			fmt.Printf("  %-12s NOT HERE: %v\n", k.Name, err)
		} else {
			fmt.Printf("  %-12s %s\n", k.Name, k.Does)
		}
	}
	fmt.Println("workloads:")
	for _, k := range workload.Kinds() {
		fmt.Printf("  %-12s %s (%s)\n", k.Name, k.Does, strings.Join(k.Protocols, ", "))
	}
}
