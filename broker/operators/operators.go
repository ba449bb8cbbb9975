// Package operators holds what operators do with the nodes of a cluster and with the members of its queues. They add,
// remove and replace nodes and members, drain nodes, finalise versions, see the state of nodes, and follow the long
// operations that result. Operators may be used concurrently; errors are those of package failure.
package operators

import (
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/cluster"
)

// Operators carries out what operators do with the nodes of a cluster and with the members of its queues. All methods
// may be called concurrently.
type Operators struct {
	cluster *cluster.Cluster
	serving *serving.Node
}

// New returns the Operators of a node's part of a cluster.
func New(c *cluster.Cluster, s *serving.Node) *Operators {
	return &Operators{cluster: c, serving: s}
}
