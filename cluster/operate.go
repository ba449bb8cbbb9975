package cluster

import (
	"context"
	"fmt"
	"path"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
)

// Progress is how far a long operation has come. The next one replaces it.
type Progress = operation.Progress

// Phases of operations on members.
const (
	PhaseWait    = "wait"     // for another change of the queue, a leader or a majority
	PhaseCatchUp = "catch up" // the new member receives the log, without a vote
	PhaseJoin    = "join"     // the new member gets its vote
	PhaseLeave   = "leave"    // the old member is taken out of the group
	PhaseMove    = "move"     // several queues, one after another
	PhaseForget  = "forget"   // the node is taken out of the catalog
	PhaseReplace = "replace"  // what the node had stored is given up
)

// QueueFilter chooses queues. The zero value chooses all.
type QueueFilter struct {
	VHost string // "": every vhost
	Name  string // pattern of path.Match for the name; "": every name
	// EvenOnly leaves out queues with an odd number of members, as Grow may want it.
	EvenOnly bool
}

// Validate refuses a pattern that cannot be read.
func (f QueueFilter) Validate() error {
	_, err := path.Match(f.Name, "")
	return err
}

// Matches tells whether the filter chooses a queue.
func (f QueueFilter) Matches(q *catalog.QueueRecord) bool {
	if f.VHost != "" && f.VHost != q.VHost || f.EvenOnly && len(q.Members)%2 == 1 {
		return false
	}
	matched, err := path.Match(f.Name, q.Name)
	return f.Name == "" || err == nil && matched
}

// AddMember makes a node a member of a queue (RE-3). It returns when the node votes.
//
// This and all operations below: report, if not nil, is called from one goroutine and
// must not block. The end of ctx takes back what has not taken effect; what cannot be
// taken back any more is finished by the queue's leader. A change survives the loss of
// the leader and of this node. One change at a time per queue: others wait.
func (c *Cluster) AddMember(ctx context.Context, q id.QueueUID, n id.NodeID, report func(Progress)) error {
	grown := func(r *catalog.QueueRecord) int { return len(r.Members) + 1 }
	return c.changeOne(ctx, catalog.BeginMemberChange{UID: q, Join: n}, grown, report)
}

// RemoveMember takes a node out of a queue (RE-3). It is refused for the last member, and
// waits while those that stay are not a majority that is there.
func (c *Cluster) RemoveMember(ctx context.Context, q id.QueueUID, n id.NodeID, report func(Progress)) error {
	if _, registered := c.View().Node(n); !registered {
		return fmt.Errorf("cluster: node %q is not registered in the cluster", n)
	}
	shrunk := func(r *catalog.QueueRecord) int { return max(1, len(r.Members)-1) }
	return c.changeOne(ctx, catalog.BeginMemberChange{UID: q, Leave: n}, shrunk, report)
}

// ReplaceMember makes one node a member, then takes another out. With from equal to to the
// member is rebuilt from the others.
func (c *Cluster) ReplaceMember(ctx context.Context, q id.QueueUID, from, to id.NodeID, report func(Progress)) error {
	return c.changeOne(ctx, catalog.BeginMemberChange{UID: q, Join: to, Leave: from}, nil, report)
}

// ReconcileStatus is what the catalog's leader does to bring queues to their size (RE-4).
type ReconcileStatus struct {
	Leader  id.NodeID // who does it: the catalog's leader as this node knows it; "": unknown
	Changes []MemberChangeStatus
	Short   int // queues with fewer members than they should have
}

// MemberChangeStatus is a change of a queue's members that goes on.
type MemberChangeStatus struct {
	Queue       id.QueueUID
	VHost, Name string
	Join, Leave id.NodeID // "": none
}
