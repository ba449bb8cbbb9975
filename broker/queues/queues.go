// Package queues finds queues for callers, and shows those that a caller may see, with their figures: one, a page, or all
// (ST-1). It keeps the figures of all queues for a second, so that lists ask each node once. Errors are those of package
// failure.
package queues

import (
	"context"
	"time"

	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
)

// Config has the parts of Queues.
type Config struct {
	Life     context.Context // ends the questions to other nodes
	Cluster  *cluster.Cluster
	View     func() *catalog.View
	Now      func() time.Time // the time of the cluster
	Policies *policy.Matcher
	// Losses asks all nodes for the members that have lost what they had stored.
	Losses      func(context.Context) map[id.QueueUID][]id.NodeID
	Serving     *serving.Node
	Permissions *permission.Permissions
	Connections *connections.Connections // know the owners of exclusive queues
}

// Queues shows the queues of the cluster. All methods may be called concurrently.
type Queues struct {
	life        context.Context
	cluster     *cluster.Cluster
	view        func() *catalog.View
	now         func() time.Time
	policies    *policy.Matcher
	serving     *serving.Node
	permissions *permission.Permissions
	connections *connections.Connections
	shared      sharedFigures
	losses      sharedLosses
}

// New returns the Queues of a node.
func New(c Config) *Queues {
	return &Queues{
		life: c.Life, cluster: c.Cluster, view: c.View, now: c.Now, policies: c.Policies,
		serving: c.Serving, permissions: c.Permissions, connections: c.Connections, losses: sharedLosses{ask: c.Losses},
	}
}

// Listable returns what the caller may see in a vhost, or in all of them for "", and the view to list it from. It
// checks the caller's permissions first, so that a caller without any does not learn whether the vhost exists (VH-12).
func (qs *Queues) Listable(ctx context.Context, vhost string) (permission.Sight, *catalog.View, error) {
	seen, err := qs.permissions.Sight(ctx, vhost)
	if err != nil {
		return seen, nil, err
	}
	v, err := qs.serving.ViewOf(vhost)
	return seen, v, err
}
