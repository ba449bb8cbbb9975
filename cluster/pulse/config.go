package pulse

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/id"
)

// Heartbeat is the state that a node sends with each heartbeat.
type Heartbeat struct {
	Led     uint64 // number of groups that the sender leads and in which the receiver votes
	LedHash uint64 // checksum of their ids
	Stalled bool   // a write to its disk hangs
}

// Heartbeats fills the heartbeats that this node sends and handles those of its peers. Calls come
// from the goroutines of connections and must not block.
type Heartbeats interface {
	// Heartbeat returns the state to send with the next heartbeat to the peer.
	Heartbeat(to id.NodeID) Heartbeat
	// Late reports that a heartbeat of the peer has been missing for a moment, or one of this node
	// at the peer.
	Late(from id.NodeID)
	// HandleHeartbeat handles the state in a peer's heartbeat. It is not called for peers without
	// Heartbeats.
	HandleHeartbeat(from id.NodeID, b Heartbeat)
}

// Config has the settings of a Set, and what it notifies.
type Config struct {
	Life       context.Context // ends the heartbeats
	Node       id.NodeID
	Every      time.Duration // between two heartbeats of each pair of nodes
	Timeout    time.Duration // without heartbeats, a peer's connections are given up
	Heartbeats Heartbeats    // nil: heartbeats only show that this node lives
	Clock      Clock         // nil: heartbeats have no readings of clocks
}

// shared is what all Pulses of a node have in common.
type shared struct {
	config  Config
	starved starved
	drains  atomic.Bool   // peers hand no leadership to members here
	stuck   atomic.Uint64 // connections that were given up because they stood still
	run     func()        // makes sure that peers are asked
}
