// Package k8s drives nodes that are pods of a StatefulSet, by kubectl: it deletes pods and volumes,
// evicts pods from their machines, restarts the whole, cuts links by NetworkPolicies, and stops
// processes from pods beside them. Clients reach nodes through kubectl port-forward, so that the
// program runs where kubectl does.
package k8s

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/target/remote"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/loopback"
	"github.com/quorate/quorate/internal/wait"
)

// Options are where the pods are. Zero values are the names in the chart.
type Options struct {
	Client      client.Config // login and TLS; addresses are those of the forwarded ports
	Context     string        // kubectl's; "": the current one
	Namespace   string        // "": that of the context
	StatefulSet string        // "": quorate
	Claim       string        // name in volumeClaimTemplates of the node's data; "": data
	// PauseImage has a shell and is run, privileged and with the machine's processes in sight, beside
	// nodes that are paused; "": nodes cannot be paused.
	PauseImage string
}

// Ports of the chart.
const (
	clientPort = "7070"
	httpPort   = "7073"
	amqpPort   = "5672"
)

// Cluster drives pods. All methods may be called concurrently, for different nodes.
type Cluster struct {
	*remote.Cluster

	options    Options
	forwarding sync.WaitGroup
	stop       context.CancelFunc
	// reach begins to forward ports to a pod, until what it returns is called, or stop.
	reach func(target.Node) context.CancelFunc

	mu      sync.Mutex
	reached map[string]context.CancelFunc // by node
	gone    map[string]string             // uids of pods that were deleted, by node
	machine map[string]string             // that are closed for new work, by the node that was there
	cuts    map[string]map[string]int     // how often ways are cut, by both ends
	healing map[string]func()             // cancels what heals later, by the name of what is healed
	touched uint64                        // links that nodes have missed
}

var _ interface {
	target.Cluster
	target.Processes
	target.Pausing
	target.Stores
	target.Machines
	target.Rollouts
	target.Scaling
	target.Network
	target.Partial
} = (*Cluster)(nil)

// pollEvery is how often the cluster is asked for a pod.
const pollEvery = 200 * time.Millisecond

// Open finds the pods and forwards ports to them. Close ends that.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	o.StatefulSet, o.Claim = cmp.Or(o.StatefulSet, "quorate"), cmp.Or(o.Claim, "data")
	c := &Cluster{
		options: o, reached: map[string]context.CancelFunc{}, gone: map[string]string{}, machine: map[string]string{},
		cuts: map[string]map[string]int{}, healing: map[string]func(){},
	}
	if _, err := exec.LookPath("kubectl"); err != nil {
		return nil, fmt.Errorf("k8s: %w", err)
	}
	set, err := c.statefulSet(ctx)
	if err != nil {
		return nil, err
	}
	c.options.Namespace = set.Metadata.Namespace
	forwarding, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.reach = func(n target.Node) context.CancelFunc {
		ctx, stop := context.WithCancel(forwarding)
		c.forwarding.Go(func() { c.forward(ctx, n) })
		return stop
	}
	var nodes []target.Node
	for i := range set.Spec.Replicas {
		n, err := c.attach(i)
		if err != nil {
			stop()
			return nil, err
		}
		nodes = append(nodes, n)
	}
	c.Cluster = remote.New(remote.Options{Client: o.Client}, nodes)
	return c, nil
}

// statefulSet is what is asked of it.
type statefulSet struct {
	Metadata struct{ Namespace string }
	Spec     struct{ Replicas int }
}

func (c *Cluster) statefulSet(ctx context.Context) (set statefulSet, err error) {
	out, err := c.kubectl(ctx, "", "get", "statefulset", c.options.StatefulSet, "--output", "json")
	if err != nil {
		return set, err
	}
	if err := json.Unmarshal([]byte(out), &set); err != nil {
		return set, fmt.Errorf("k8s: StatefulSet %s: %w", c.options.StatefulSet, err)
	}
	return set, nil
}

// name is that of the pod at an ordinal.
func (c *Cluster) name(ordinal int) string {
	return fmt.Sprintf("%s-%d", c.options.StatefulSet, ordinal)
}

// attach makes the pod at an ordinal reachable.
func (c *Cluster) attach(ordinal int) (target.Node, error) {
	n := target.Node{ID: c.name(ordinal)}
	for _, address := range []*string{&n.Client, &n.HTTP, &n.AMQP} {
		var err error
		if *address, err = loopback.Address(); err != nil {
			return n, fmt.Errorf("k8s: %w", err)
		}
	}
	stop := c.reach(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached[n.ID] = stop
	return n, nil
}

// line returns kubectl's arguments with those that say which cluster is meant.
func (c *Cluster) line(args ...string) []string {
	var where []string
	if c.options.Context != "" {
		where = append(where, "--context", c.options.Context)
	}
	if c.options.Namespace != "" {
		where = append(where, "--namespace", c.options.Namespace)
	}
	return append(where, args...)
}

// kubectl runs it once.
func (c *Cluster) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	out, err := remote.Run(ctx, input, "kubectl", c.line(args...)...)
	if err != nil {
		return "", fmt.Errorf("k8s: %w", err)
	}
	return out, nil
}

// later schedules what heals a fault; healed takes it back.
func (c *Cluster) later(what string, args ...string) error {
	cancel, err := remote.Later(remote.DeadMan, "kubectl", c.line(args...)...)
	if err != nil {
		return err
	}
	c.healed(what)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.healing[what] = cancel
	return nil
}

// healed takes back what later has scheduled.
func (c *Cluster) healed(what string) {
	c.mu.Lock()
	cancel := c.healing[what]
	delete(c.healing, what)
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// forward keeps ports of a pod reachable, whichever pod has the name at that time. kubectl ends when
// the pod does.
func (c *Cluster) forward(ctx context.Context, n target.Node) {
	to := func(local, port string) string {
		_, p, _ := net.SplitHostPort(local) // loopback.Address made it
		return p + ":" + port
	}
	for ctx.Err() == nil {
		_, _ = c.kubectl(ctx, "", "port-forward", "--address", "127.0.0.1", "pod/"+n.ID, // clients report what does not answer
			to(n.Client, clientPort), to(n.HTTP, httpPort), to(n.AMQP, amqpPort))
		_ = wait.For(ctx, pollEvery)
	}
}

// Close implements target.Cluster: it takes back what a run has left, if it did not come to its end.
func (c *Cluster) Close(ctx context.Context) error {
	c.mu.Lock()
	var cut, evicted []string
	for from := range c.cuts {
		cut = append(cut, from)
	}
	for node := range c.machine {
		evicted = append(evicted, node)
	}
	c.cuts = map[string]map[string]int{}
	c.mu.Unlock()
	var errs []error
	for _, from := range cut {
		errs = append(errs, c.applyCuts(ctx, from))
	}
	for _, node := range evicted {
		errs = append(errs, c.Return(ctx, node))
	}
	c.stop()
	c.forwarding.Wait()
	return errors.Join(errs...)
}

// Lacks implements target.Partial.
func (c *Cluster) Lacks(ability any) error {
	if _, pausing := ability.(*target.Pausing); pausing && c.options.PauseImage == "" {
		return errors.New("k8s: pausing a node needs a privileged pod on its machine: name its image, which has a shell, with --pause-image")
	}
	return nil
}

// pod is what is asked of pods.
type pod struct {
	Metadata struct {
		UID               string
		DeletionTimestamp string
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase, PodIP      string
		ContainerStatuses []struct{ State struct{ Running *struct{} } }
	}
}

// runs reports whether the pod has a process, and is not on its way out.
func (p *pod) runs() bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Running == nil {
			return false
		}
	}
	return p.Metadata.DeletionTimestamp == "" && p.Status.Phase == "Running" && len(p.Status.ContainerStatuses) > 0
}

// pod returns a pod; a pod that is not there has no UID.
func (c *Cluster) pod(ctx context.Context, node string) (p pod, err error) {
	out, err := c.kubectl(ctx, "", "get", "pod", node, "--ignore-not-found", "--output", "json")
	if err != nil || strings.TrimSpace(out) == "" {
		return p, err
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		return p, fmt.Errorf("k8s: pod %s: %w", node, err)
	}
	return p, nil
}
