package membership

import (
	"path"

	"github.com/quorate/quorate/catalog"
)

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

// Matches reports whether the filter chooses a queue.
func (f QueueFilter) Matches(q *catalog.QueueRecord) bool {
	if f.VHost != "" && f.VHost != q.VHost || f.EvenOnly && len(q.Members)%2 == 1 {
		return false
	}
	matched, err := path.Match(f.Name, q.Name)
	return f.Name == "" || err == nil && matched
}
