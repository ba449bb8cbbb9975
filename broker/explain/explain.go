// Package explain says where messages would go, and why not elsewhere: a published one, and one that died (G-20). Errors
// are those of package failure.
package explain

import (
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/queues"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
)

// Config has the parts of an Explainer.
type Config struct {
	Cluster *cluster.Cluster
	Leads   func(id.QueueUID) bool // whether this node leads a queue
	// Alternate returns an exchange's alternate exchange (EX-12).
	Alternate   func(*catalog.View, *catalog.Exchange) (string, bool)
	Policies    *policy.Matcher
	Serving     *serving.Node
	Permissions *permission.Permissions
	Queues      *queues.Queues
}

// Explainer routes messages as publishes and forwarders do, and sends none. All methods may be called concurrently.
type Explainer struct {
	cluster     *cluster.Cluster
	leads       func(id.QueueUID) bool
	alternate   func(*catalog.View, *catalog.Exchange) (string, bool)
	policies    *policy.Matcher
	serving     *serving.Node
	permissions *permission.Permissions
	queues      *queues.Queues
}

// New returns the Explainer of a node.
func New(c Config) *Explainer {
	return &Explainer{
		cluster: c.Cluster, leads: c.Leads, alternate: c.Alternate, policies: c.Policies,
		serving: c.Serving, permissions: c.Permissions, queues: c.Queues,
	}
}
