package k8s

import (
	"context"
	"strconv"
	"time"

	"github.com/quorate/quorate/chaos/target"
)

// seconds is a duration as scripts take it.
func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

// Cut implements target.Network, where the cluster's network enforces policies on what pods send.
func (c *Cluster) Cut(ctx context.Context, from, to string) error {
	c.mu.Lock()
	if c.cuts[from] == nil {
		c.cuts[from] = map[string]int{}
	}
	c.cuts[from][to]++
	first := c.cuts[from][to] == 1
	c.mu.Unlock()
	if !first {
		return nil
	}
	return c.applyCuts(ctx, from)
}

// Join implements target.Network.
func (c *Cluster) Join(ctx context.Context, from, to string) error {
	c.mu.Lock()
	last := c.cuts[from][to] == 1
	switch {
	case last:
		delete(c.cuts[from], to)
	case c.cuts[from][to] > 1:
		c.cuts[from][to]--
	}
	c.mu.Unlock()
	if !last {
		return nil
	}
	return c.applyCuts(ctx, from)
}

// applyCuts makes the policy of what a node sends as the cuts are, or takes it back.
func (c *Cluster) applyCuts(ctx context.Context, from string) error {
	c.mu.Lock()
	to := map[string]string{}
	for name := range c.cuts[from] {
		to[name] = ""
	}
	if len(to) == 0 {
		delete(c.cuts, from)
	}
	c.mu.Unlock()
	remove := []string{"delete", "networkpolicy", policyName(from), "--ignore-not-found"}
	if len(to) == 0 {
		_, err := c.kubectl(ctx, "", remove...)
		if err == nil {
			c.healed("policy of " + from)
		}
		return err
	}
	for name := range to {
		p, err := c.pod(ctx, name)
		if err != nil {
			return err
		}
		to[name] = p.Status.PodIP
	}
	if err := c.later("policy of "+from, remove...); err != nil {
		return err
	}
	_, err := c.kubectl(ctx, c.policy(from, to), "apply", "--filename", "-")
	return err
}

// Touched implements target.Network: it counts the links that nodes have missed at the times of the
// calls. A network that does not enforce policies leaves it as it is.
func (c *Cluster) Touched(ctx context.Context) (uint64, error) {
	var missed float64
	for _, n := range c.Nodes() {
		for _, name := range []string{"quorate_links_down", "quorate_links_detour"} {
			if v, err := target.Metric(ctx, c, n.ID, name); err == nil { // a node that is hit may not answer
				missed += v
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched += uint64(missed)
	return c.touched, nil
}
