package command

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/target/docker"
	"github.com/quorate/quorate/chaos/target/k8s"
	"github.com/quorate/quorate/chaos/target/remote"
	"github.com/quorate/quorate/chaos/target/ssh"
)

// Existing is how an existing cluster is found.
type Existing struct {
	Confirm string         // the cluster's name, without which nothing is put into it
	Nodes   remote.Options // how clients reach it
	K8s     k8s.Options
	SSH     ssh.Options
	Docker  docker.Options
}

// Names of targets that are already there.
const (
	addresses  = "addresses"
	kubernetes = "k8s"
	overSSH    = "ssh"
	containers = "docker"
)

// existing returns the drivers of clusters that are already there.
func existing() []driver {
	program := func(name string) func(*Options) error {
		return func(*Options) error {
			_, err := exec.LookPath(name)
			return err
		}
	}
	return []driver{
		{
			name: addresses, does: "takes a cluster at --address, and does what operators do over the API", guarded: true,
			possible: func(*Options) error { return nil }, abilities: &remote.Cluster{},
			open: func(ctx context.Context, o *Options, _ plan, _ string) (opened, error) {
				c, err := remote.Open(ctx, o.Existing.Nodes)
				return opened{Cluster: c, start: running}, err
			},
		},
		{
			name: kubernetes, does: "takes the pods of a StatefulSet, by kubectl", guarded: true, possible: program("kubectl"), abilities: &k8s.Cluster{},
			open: func(ctx context.Context, o *Options, _ plan, _ string) (opened, error) {
				options := o.Existing.K8s
				options.Client = o.Existing.Nodes.Client
				c, err := k8s.Open(ctx, options)
				return opened{Cluster: c, start: running}, err
			},
		},
		{
			name: overSSH, does: "takes a cluster at --address whose hosts ssh reaches", guarded: true, possible: program("ssh"), abilities: &ssh.Cluster{},
			open: func(ctx context.Context, o *Options, _ plan, _ string) (opened, error) {
				nodes, err := remote.Open(ctx, o.Existing.Nodes)
				if err != nil {
					return opened{}, err
				}
				c, err := ssh.New(nodes, o.Existing.SSH)
				return opened{Cluster: c, start: running}, err
			},
		},
		{
			name: containers, does: "takes a cluster at --address whose nodes are containers of this machine", guarded: true,
			possible: program("docker"), abilities: &docker.Cluster{},
			open: func(ctx context.Context, o *Options, _ plan, _ string) (opened, error) {
				nodes, err := remote.Open(ctx, o.Existing.Nodes)
				return opened{Cluster: docker.New(nodes, o.Existing.Docker), start: running}, err
			},
		},
	}
}

// running is the start of what runs already.
func running(context.Context) error { return nil }

// guard asks leave of a cluster that is already there. What the run does stays in the vhost; release
// takes it back.
func (o *Options) guard(ctx context.Context, p plan, c target.Cluster) (vhost string, release func(context.Context) error, err error) {
	if !p.guarded() {
		return "", func(context.Context) error { return nil }, nil
	}
	if o.Existing.Confirm == "" {
		return "", nil, errors.New("the cluster is already there: name it with --confirm, so that faults go nowhere else")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	g, err := remote.Guard(ctx, c, o.Existing.Confirm)
	if err != nil {
		return "", nil, err
	}
	o.print("cluster %s is well; all that clients do is in vhost %s\n", o.Existing.Confirm, g.VHost)
	return g.VHost, g.Release, nil
}
