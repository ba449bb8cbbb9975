package replica

import (
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// asleep is what a node keeps about a member that hibernates.
type asleep struct {
	leader id.NodeID           // who led last
	kept   *quorumq.Overview   // the queue's figures, on the node that led last
	status *nodev1.GroupStatus // the group's status, likewise

	term, last uint64 // where its log ends
	due        int64  // when it has something to do, in the cluster's time in ms; 0: never
}

// sleeper returns what is kept about a member that hibernates, nil if it does
// not.
func (h *Host) sleeper(uid id.QueueUID) *asleep {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.asleep[uid]
}
