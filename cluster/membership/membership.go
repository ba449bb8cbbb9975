// Package membership changes who is a member of what: of the groups of queues, one step after
// another through the catalog and the queue's leader, and of the cluster, as nodes are drained,
// replaced, removed and forgotten. It keeps queues at their size and their leaders even while
// nobody asks, and hands over what a node leads whose disk is low. See docs/adr/0006.
package membership

import (
	"context"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// maxNamed bounds the groups, queues and errors that an error names.
const maxNamed = 10

// unitGroups is what the progress of moving leaders counts.
const unitGroups = "groups"

// Transport connects to the other nodes.
type Transport interface {
	Connected(n id.NodeID) (id.Epoch, bool)
	// TakeOver sets whether members here take leadership that a peer hands over.
	TakeOver(may bool)
	// Drains reports whether a node takes over no leadership.
	Drains(n id.NodeID) bool
}

// Nodes reports what nodes host.
type Nodes interface {
	// Own answers for this node.
	Own(ctx context.Context) (*nodev1.NodeStatusResponse, error)
	// Started reports whether who answers so has started.
	Started(r *nodev1.NodeStatusResponse) bool
	// Steady reports whether a node is there all the time, and does not come and go.
	Steady(n id.NodeID) bool
}
