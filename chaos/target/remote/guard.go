package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
)

// vhostPrefix begins the names of vhosts that guards make.
const vhostPrefix = "quorate-chaos-"

// Guarded is the leave to put faults into a cluster that is already there.
type Guarded struct {
	// VHost is where workloads declare what they need; nothing else is in it.
	VHost string

	client *client.Client
}

// Guard refuses unless confirm is the cluster's name and the cluster is well, and makes a vhost for
// workloads. Release takes it back.
func Guard(ctx context.Context, c target.Cluster, confirm string) (*Guarded, error) {
	nodes, err := client.Dial(ctx, c.Dial())
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	g := &Guarded{VHost: vhostPrefix + strings.ToLower(rand.Text()[:8]), client: nodes}
	if err = g.confirmed(ctx, confirm); err == nil {
		err = g.makeVHost(ctx)
	}
	if err != nil {
		nodes.Close()
		return nil, err
	}
	return g, nil
}

// confirmed compares the name and looks whether all is well; nothing was changed yet.
func (g *Guarded) confirmed(ctx context.Context, confirm string) error {
	st, err := g.client.ClusterDetails(ctx)
	if err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	if st.Cluster != confirm {
		return fmt.Errorf("remote: this is the cluster %q, with %d nodes: to put faults into it, name it with --confirm %s", st.Cluster, len(st.Nodes), st.Cluster)
	}
	var sick []error
	for _, n := range st.Nodes {
		switch {
		case !n.Alive:
			sick = append(sick, fmt.Errorf("node %s is down", n.ID))
		case n.Start == nil || n.Start.Phase != started:
			sick = append(sick, fmt.Errorf("node %s has not started, or does not answer", n.ID))
		case n.Draining:
			sick = append(sick, fmt.Errorf("node %s is drained: restart it", n.ID))
		case n.Refused != "":
			sick = append(sick, fmt.Errorf("node %s is refused: %s", n.ID, n.Refused))
		}
	}
	if st.Hindrance != "" {
		sick = append(sick, errors.New(st.Hindrance))
	}
	if len(sick) == 0 {
		sick = g.sickQueues(ctx)
	}
	if len(sick) > 0 {
		return fmt.Errorf("remote: cluster %q is not well, and gets no faults besides: %w", st.Cluster, errors.Join(sick...))
	}
	return nil
}

// maxNamed bounds how many queues an error names.
const maxNamed = 3

// sickQueues returns why queues could not bear a fault now; the lists name the queues, GetQueue has
// their members.
func (g *Guarded) sickQueues(ctx context.Context) (sick []error) {
	for q, err := range g.client.Queues(ctx, client.ListQueuesRequest{}) {
		if err == nil {
			q, err = g.client.GetQueue(ctx, client.QueueRef{VHost: q.VHost, Name: q.Name})
		}
		if gone := (*client.Error)(nil); errors.As(err, &gone) && gone.Class == client.NotFound {
			continue // deleted meanwhile
		}
		switch {
		case err != nil:
			sick = append(sick, err)
		case q.Leader == "" || len(q.Online) < len(q.Members):
			sick = append(sick, fmt.Errorf("queue %q of vhost %q has %d of %d members, and is led by %q", q.Name, q.VHost, len(q.Online), len(q.Members), q.Leader))
		}
		if len(sick) == maxNamed {
			break
		}
	}
	return sick
}

// makeVHost makes the vhost, where the user that made it may do all.
func (g *Guarded) makeVHost(ctx context.Context) error {
	isNew, err := g.client.PutVHost(ctx, client.VHost{Name: g.VHost, Description: "of quoratectl chaos run: delete it if no run goes on"})
	if err == nil && !isNew {
		err = fmt.Errorf("there is a vhost %s already", g.VHost)
	}
	if err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	me, err := g.client.WhoAmI(ctx)
	if err == nil && me.User != "" { // else logins are off
		_, err = g.client.SetPermission(ctx, client.Permission{User: me.User, VHost: g.VHost, Configure: ".*", Write: ".*", Read: ".*"})
	}
	if err != nil {
		_, undone := g.client.DeleteVHost(context.WithoutCancel(ctx), g.VHost)
		return errors.Join(fmt.Errorf("remote: permission in vhost %s: %w", g.VHost, err), undone)
	}
	return nil
}

// Release deletes the vhost with all that is in it.
func (g *Guarded) Release(ctx context.Context) error {
	defer g.client.Close()
	if _, err := g.client.DeleteVHost(ctx, g.VHost); err != nil {
		return fmt.Errorf("remote: delete vhost %s, which this run has made: %w", g.VHost, err)
	}
	return nil
}
