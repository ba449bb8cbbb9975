package k8s

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/target/remote"
	"github.com/quorate/quorate/internal/wait"
)

// Limits of what Kubernetes takes its time for: a pod that drains and ends has 150 s in the chart,
// and another machine may have to fetch the image and the volume.
const (
	stopLimit      = "180s"
	availableLimit = "2m"
	rolloutLimit   = "15m"
	startTimeout   = 5 * time.Minute
)

// leave notes which pod goes.
func (c *Cluster) leave(ctx context.Context, node string) error {
	p, err := c.pod(ctx, node)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone[node] = p.Metadata.UID
	return err
}

// Kill implements target.Processes: the pod is deleted without grace, and the StatefulSet makes
// another one with the same volume.
func (c *Cluster) Kill(ctx context.Context, node string) error {
	err := c.leave(ctx, node)
	if err == nil {
		_, err = c.kubectl(ctx, "", "delete", "pod", node, "--grace-period=0", "--force", "--wait=false")
	}
	return err
}

// Stop implements target.Processes: the pod drains and ends.
func (c *Cluster) Stop(ctx context.Context, node string) error {
	err := c.leave(ctx, node)
	if err == nil {
		_, err = c.kubectl(ctx, "", "delete", "pod", node, "--wait=true", "--timeout="+stopLimit)
	}
	return err
}

// Start implements target.Processes: it waits for the pod that the StatefulSet makes.
func (c *Cluster) Start(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		p, err := c.pod(ctx, node)
		if err == nil && c.fresh(node, &p) {
			return nil
		}
		if ended := wait.For(ctx, pollEvery); ended != nil {
			return errors.Join(fmt.Errorf("k8s: pod %s does not run again: it is %q: %w", node, p.Status.Phase, ended), err)
		}
	}
}

// fresh reports whether the pod runs, and is not the one that was deleted.
func (c *Cluster) fresh(node string, p *pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.runs() && p.Metadata.UID != c.gone[node]
}

// Running implements target.Processes.
func (c *Cluster) Running(node string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), remote.DeadMan)
	defer cancel()
	p, err := c.pod(ctx, node)
	return err == nil && c.fresh(node, &p)
}

// Lose implements target.Stores: the volume goes with the pod, and the StatefulSet makes both anew.
func (c *Cluster) Lose(ctx context.Context, node string) error {
	if _, err := c.kubectl(ctx, "", "delete", "persistentvolumeclaim", c.claimOf(node), "--wait=false"); err != nil {
		return err // it is kept as long as the pod is there
	}
	return c.Kill(ctx, node)
}

// Rollout implements target.Rollouts. It waits until all pods have been ready for as long as the StatefulSet asks for: from
// Kubernetes 1.37 on, a rollout takes those that have not for broken, and replaces them together.
func (c *Cluster) Rollout(ctx context.Context) error {
	set := "statefulset/" + c.options.StatefulSet
	for _, args := range [][]string{
		{"wait", set, fmt.Sprintf("--for=jsonpath={.status.availableReplicas}=%d", len(c.Nodes())), "--timeout=" + availableLimit},
		{"rollout", "restart", set},
		{"rollout", "status", set, "--timeout=" + rolloutLimit},
	} {
		if _, err := c.kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	return nil
}

// podLabel is what Kubernetes names a StatefulSet's pods by.
const podLabel = "statefulset.kubernetes.io/pod-name"

// Evict implements target.Machines: the machine is closed for new pods, and this one alone evicted.
func (c *Cluster) Evict(ctx context.Context, node string) error {
	p, err := c.pod(ctx, node)
	if err != nil {
		return err
	}
	machine := p.Spec.NodeName
	closed, err := c.kubectl(ctx, "", "get", "node", machine, "--output", "jsonpath={.spec.unschedulable}")
	if err != nil {
		return err
	}
	if strings.TrimSpace(closed) == "true" {
		return fmt.Errorf("k8s: machine %s of pod %s is cordoned already: somebody works on it", machine, node)
	}
	if err := c.leave(ctx, node); err != nil {
		return err
	}
	if err := c.later("machine "+machine, "uncordon", machine); err != nil {
		return err
	}
	c.mu.Lock()
	c.machine[node] = machine
	c.mu.Unlock()
	_, err = c.kubectl(ctx, "", "drain", machine, "--ignore-daemonsets", "--pod-selector="+podLabel+"="+node, "--timeout="+stopLimit)
	return err
}

// Return implements target.Machines.
func (c *Cluster) Return(ctx context.Context, node string) error {
	c.mu.Lock()
	machine := c.machine[node]
	c.mu.Unlock()
	if machine == "" {
		return nil
	}
	if _, err := c.kubectl(ctx, "", "uncordon", machine); err != nil {
		return err
	}
	c.healed("machine " + machine)
	c.mu.Lock()
	delete(c.machine, node)
	c.mu.Unlock()
	return c.Start(ctx, node)
}

// Pause implements target.Pausing, from a pod beside the node's.
func (c *Cluster) Pause(ctx context.Context, node string) error {
	p, err := c.pod(ctx, node)
	if err != nil {
		return err
	}
	if _, err := c.kubectl(ctx, c.pausePod(node, &p), "create", "--filename", "-"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, remote.DeadMan)
	defer cancel()
	for {
		said, err := c.kubectl(ctx, "", "logs", pauseName(node))
		if err == nil && strings.Contains(said, pauseStopped) {
			return nil
		}
		if ended := wait.For(ctx, pollEvery); ended != nil {
			return errors.Join(fmt.Errorf("k8s: pod %s does not stop the node: %w: it said %q", pauseName(node), ended, said), err)
		}
	}
}

// Resume implements target.Pausing: the pod lets the node go on when it ends.
func (c *Cluster) Resume(ctx context.Context, node string) error {
	_, err := c.kubectl(ctx, "", "delete", "pod", pauseName(node), "--ignore-not-found", "--wait=true")
	return err
}
