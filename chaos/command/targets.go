package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/target/local"
	"github.com/quorate/quorate/chaos/target/netns"
	"github.com/quorate/quorate/chaos/workload"
)

// Names of targets.
const (
	processes  = "processes"
	namespaces = "netns"
)

// opened is a cluster; start starts its nodes and waits until they are ready.
type opened struct {
	target.Cluster
	start func(context.Context) error
}

// driver is a way to run or to reach nodes.
type driver struct {
	name string
	does string
	// possible returns why this machine cannot have it; nil: it can, as far as is known without
	// trying.
	possible func(o *Options) error
	// guarded means that the cluster exists already, and is somebody's.
	guarded bool
	// abilities, if set, returns what the driver can without a cluster.
	abilities target.Cluster
	open      func(ctx context.Context, o *Options, p plan, dir string) (opened, error)
}

// targets returns all drivers.
func targets() []driver {
	return append([]driver{
		{
			name: processes, does: "makes nodes that are processes of this machine, on loopback",
			possible: func(o *Options) error { _, err := o.binary(); return err },
			open:     openProcesses,
		},
		{
			name: namespaces, does: "makes nodes that have a network and a disk of their own; Linux, root",
			possible: func(o *Options) error {
				_, err := o.binary()
				return errors.Join(netns.Possible(), err)
			},
			open: openNamespaces,
		},
	}, existing()...)
}

// driver returns the plan's driver; plans that were validated have one.
func (p *plan) driver() driver {
	all := targets()
	return all[slices.IndexFunc(all, func(d driver) bool { return d.name == p.Target })]
}

// guarded reports whether the plan's cluster is somebody's.
func (p *plan) guarded() bool { return p.driver().guarded }

// open opens the plan's cluster.
func (o *Options) open(ctx context.Context, p plan, dir string) (opened, error) {
	d := p.driver()
	if err := d.possible(o); err != nil {
		return opened{}, err
	}
	return d.open(ctx, o, p, dir)
}

// madeSettings returns those of nodes that are made: their caches are full before it is noted what they use, and
// bodies are read from the log as well; queues that rest hibernate soon.
func madeSettings() string {
	return fmt.Sprintf("limits:\n  body_cache_bytes: 33554432\ntimeouts:\n  hibernate: %v\n", workload.HibernateAfter)
}

func openProcesses(_ context.Context, o *Options, p plan, dir string) (opened, error) {
	binary, err := o.binary()
	if err != nil {
		return opened{}, err
	}
	c, err := local.Open(chaos.ClusterConfig{Binary: binary, Dir: dir, Nodes: p.Nodes, Settings: madeSettings()}, o.Other)
	if err != nil {
		return opened{}, err
	}
	return opened{c, c.Cluster.Start}, nil
}

func openNamespaces(ctx context.Context, o *Options, p plan, dir string) (opened, error) {
	binary, err := o.binary()
	if err != nil {
		return opened{}, err
	}
	c, err := netns.Open(ctx, netns.Options{Binary: binary, OtherBinary: o.Other, Dir: dir, Nodes: p.Nodes, Settings: madeSettings()})
	if err != nil {
		return opened{}, err
	}
	return opened{c, c.Cluster.Cluster.Start}, nil
}

// binary returns the program of nodes: the one that was named, the one beside this program, or the
// one on PATH.
func (o *Options) binary() (string, error) {
	const name = "quorate"
	if o.Binary != "" {
		_, err := os.Stat(o.Binary)
		return o.Binary, err
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("the program of nodes, %s, is neither beside this one nor on PATH: name it with --binary", name)
	}
	return found, nil
}

// again runs this program once more inside namespaces; its failure was printed there.
func again(ctx context.Context, args []string) error {
	err := netns.Possible()
	if err == nil {
		err = netns.Again(ctx, args...)
	}
	var ended *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ended) && ended.Exited():
		return &Failure{Code: ended.ExitCode()}
	default:
		return &Failure{ExitFailed, err}
	}
}
