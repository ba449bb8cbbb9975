// Package membership changes who is a member of what: of the groups of queues, one step after
// another through the catalog and the queue's leader, and of the cluster, as nodes are drained,
// replaced, removed and forgotten. It keeps queues at their size and their leaders even while
// nobody asks, and hands over what a node leads whose disk is low. See docs/adr/0006.
package membership

import (
	"context"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/raftfsm"
)

// maxNamed bounds the groups, queues and errors that an error names.
const maxNamed = 10

// unitGroups is what the progress of moving leaders counts.
const unitGroups = "groups"

// Group is this node's member of a group.
type Group interface {
	Members() ([]id.NodeID, error)
	Configuration() (raftfsm.Configuration, error)
	AddNonvoter(ctx context.Context, n id.NodeID) error
	AddVoter(ctx context.Context, n id.NodeID) error
	RemoveServer(ctx context.Context, n id.NodeID, at uint64) error
	TransferLeadership(ctx context.Context, to id.NodeID) error
	Push()
	Relieve() error
	Stats() raftfsm.Stats
}

// Member is this node's member of a queue.
type Member struct {
	Queue id.QueueUID
	Group Group
	Leads bool            // it leads, by its Lead command or about to
	Led   func() bool     // it leads by its Lead command
	Life  context.Context // ends when it is closed
}

// Load is what a node carries.
type Load struct{ Replicas, Leaders int }

// Members are this node's members of queues. Methods may be called concurrently.
type Members interface {
	// Open returns those that are open.
	Open() []Member
	// Changing returns those of Open whose queues' members change; Changes has an element when
	// there may be others, or a queue is led anew.
	Changing() []Member
	Changes() <-chan struct{}
	// Loads returns what each node carries by a view.
	Loads(v *catalog.View) map[id.NodeID]Load
	// Current tells whether the view has everything that the catalog had when this node started.
	Current(v *catalog.View) bool
	// LostMembers returns the queues whose member here has lost what it had stored, ascending;
	// Mends has an element when there may be another one.
	LostMembers() []id.QueueUID
	Mends() <-chan struct{}
	// Joined returns the change by which the member of a queue joined; 0: none.
	Joined(q id.QueueUID) uint64
}

// Links lead to the other nodes.
type Links interface {
	Connected(n id.NodeID) (id.Epoch, bool)
}

// Nodes tells what nodes host.
type Nodes interface {
	// Own answers for this node.
	Own(ctx context.Context) (*nodev1.NodeStatusResponse, error)
	// Started tells whether who answers so has started.
	Started(r *nodev1.NodeStatusResponse) bool
}
