package k8s

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/internal/wait"
)

// OnlyNewest implements target.Scaling: a StatefulSet gives up its highest ordinal first.
func (*Cluster) OnlyNewest() bool { return true }

// scale changes the number of pods, if it is what it is thought to be.
func (c *Cluster) scale(ctx context.Context, from, to int) error {
	_, err := c.kubectl(ctx, "", "scale", "statefulset/"+c.options.StatefulSet,
		"--current-replicas="+strconv.Itoa(from), "--replicas="+strconv.Itoa(to))
	return err
}

// claimOf is the name of a node's volume claim.
func (c *Cluster) claimOf(node string) string { return c.options.Claim + "-" + node }

// Add implements target.Scaling: the StatefulSet gets a pod more. A volume of an earlier pod of that name has a store
// that the cluster has forgotten, so that it would be refused.
func (c *Cluster) Add(ctx context.Context) (node string, err error) {
	set, err := c.statefulSet(ctx)
	if err != nil {
		return "", err
	}
	replicas := set.Spec.Replicas
	node = c.name(replicas)
	left, err := c.kubectl(ctx, "", "get", "persistentvolumeclaim", c.claimOf(node), "--ignore-not-found", "--output", "name")
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(left) != "" {
		return "", fmt.Errorf("k8s: there is a claim %s of an earlier pod: its store would be refused; delete it if nobody needs it", c.claimOf(node))
	}
	if err := c.scale(ctx, replicas, replicas+1); err != nil {
		return "", err
	}
	n, err := c.attach(replicas)
	if err == nil {
		c.SetNodes(append(c.Nodes(), n))
		err = c.Start(ctx, node)
	}
	if err != nil {
		return "", errors.Join(err, c.Remove(context.WithoutCancel(ctx), node))
	}
	return node, nil
}

// Remove implements target.Scaling: the pod goes, and then its volume.
func (c *Cluster) Remove(ctx context.Context, node string) error {
	set, err := c.statefulSet(ctx)
	if err != nil {
		return err
	}
	replicas := set.Spec.Replicas
	if newest := c.name(replicas - 1); node != newest {
		return fmt.Errorf("k8s: pod %s cannot be removed: the StatefulSet gives up %s first", node, newest)
	}
	c.SetNodes(slices.DeleteFunc(c.Nodes(), func(n target.Node) bool { return n.ID == node }))
	c.mu.Lock()
	stop := c.reached[node]
	delete(c.reached, node)
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	if err := c.scale(ctx, replicas, replicas-1); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		p, err := c.pod(ctx, node)
		if err == nil && p.Metadata.UID == "" {
			break
		}
		if ended := wait.For(ctx, pollEvery); ended != nil {
			return errors.Join(fmt.Errorf("k8s: pod %s does not go: it is %q: %w", node, p.Status.Phase, ended), err)
		}
	}
	_, err = c.kubectl(ctx, "", "delete", "persistentvolumeclaim", c.claimOf(node), "--ignore-not-found", "--wait=true")
	return err
}
