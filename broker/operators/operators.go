// Package operators is what operators do with the nodes of a cluster and the members of its queues: add, remove
// and replace them, drain and finalise, see how nodes are, and follow the long jobs that come of it.
// Operators may be used concurrently; errors are of package failure.
package operators

import (
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/cluster"
)

// Operators is what operators do with the nodes of a cluster and with the members of its queues. All
// methods may be called concurrently.
type Operators struct {
	cluster *cluster.Cluster
	serving *serving.Node
}

// New returns that of a node's part of a cluster.
func New(c *cluster.Cluster, s *serving.Node) *Operators {
	return &Operators{cluster: c, serving: s}
}
