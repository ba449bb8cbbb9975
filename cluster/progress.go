package cluster

import (
	"fmt"

	"github.com/quorate/quorate/cluster/replica"
)

// StartPhase is what a node does before it serves.
type StartPhase string

// The phases of a start, in this order.
const (
	// StartLog reads the node's log; in segments.
	StartLog StartPhase = "opening the log"
	// StartName waits until the name that gossip advertises resolves to this machine.
	StartName StartPhase = "waiting for the own name to resolve to this machine"
	// StartCatalog joins the cluster, and catches up with its catalog.
	StartCatalog StartPhase = "joining the cluster"
	// StartGroups opens the groups of queues.
	StartGroups StartPhase = "opening groups"
	// StartElections waits for the groups' leaders.
	StartElections StartPhase = "electing leaders"
	// StartDone reports that the node has started: every group that it opened has had a
	// leader.
	StartDone StartPhase = "started"
)

// StopPhase is a part of a stop, which Close waits for.
type StopPhase string

// The phases of a stop, in this order.
const (
	StopForwarders StopPhase = "ending the forwarding of dead letters"
	StopOperations StopPhase = "ending operations"
	StopQueues     StopPhase = "answering what waits for queues"
	StopGossip     StopPhase = "leaving gossip"
	StopGroups     StopPhase = "closing members of queues"
	StopCatalog    StopPhase = "closing the member of the catalog"
	StopLinks      StopPhase = "closing the links with other nodes"
	StopLog        StopPhase = "closing the log"
	StopLoops      StopPhase = "ending background work"
	StopDirectory  StopPhase = "releasing the data directory"
)

// Units of StartProgress.
const (
	unitSegments = "segments"
	unitGroups   = "groups"
)

// StartProgress is the progress of a node's start (RE-7).
type StartProgress struct {
	Phase StartPhase
	// Done of Total Units; Total is 0 while it is not known.
	Done, Total uint64
	Unit        string
}

// String returns the phase and its progress.
func (p StartProgress) String() string {
	if p.Total == 0 {
		return string(p.Phase)
	}
	return fmt.Sprintf("%s: %d of %d %s", p.Phase, p.Done, p.Total, p.Unit)
}

// startOf returns the progress of a start once the node is in the cluster.
func startOf(m replica.Progress) StartProgress {
	p := StartProgress{Phase: StartGroups, Done: m.Done, Total: m.Total, Unit: unitGroups}
	switch {
	case m.Electing && p.Done == p.Total:
		p.Phase = StartDone
	case m.Electing:
		p.Phase = StartElections
	}
	return p
}
