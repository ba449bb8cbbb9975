// Package transport carries everything that nodes of one cluster say to each other: one
// gRPC connection from each node to each peer, with a stream for the log entries of all
// Raft groups, a stream for queue traffic, a stream for heartbeats, votes and pings, and
// calls for the rest; and between each two nodes one small connection for heartbeats.
//
// Connections are kept up by themselves. What is lost with one is lost: callers learn that
// the peer was lost and repeat what they must. DESIGN.md says why it is built this way.
package transport

import (
	"errors"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Peer is the other end of a connection: a node in one of its incarnations.
type Peer struct {
	Node  id.NodeID
	Epoch id.Epoch
	Store id.StoreID // of its data directory; "": it does not say
	// Fresh reports that no catalog had taken that store yet when it said so.
	Fresh bool
}

// Handler receives queue traffic. Calls for one peer and direction come one at a time
// and in order; they must not block.
type Handler interface {
	// HandleRequest takes a frame that a peer sent on the stream which it opened: commands
	// and Resume. Answers go through reply, which may be called later, from anywhere,
	// until the connection is down: it never blocks and returns ErrNotConnected or ErrStreamFull.
	HandleRequest(from Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error)
	// HandleAnswer takes a frame that came back on this node's own connection to the peer:
	// replies, deliveries, notices.
	HandleAnswer(from Peer, f *nodev1.Frame)
	// PeerUp and PeerDown report this node's own queue stream to the peer.
	PeerUp(p Peer)
	PeerDown(p Peer)
	// Inbound reports that a peer's queue stream to this node came up or went down.
	Inbound(p Peer, up bool)
}

// Heartbeat is what a node says of itself with each heartbeat.
type Heartbeat struct {
	Led     uint64 // groups that it leads and the receiver is a voter of
	LedHash uint64 // a sum over their ids
	Stalled bool   // a write to its disk hangs
}

// Heartbeats fills the heartbeats that this node sends and takes those of its peers. Calls come
// from the goroutines of streams and must not block.
type Heartbeats interface {
	// Heartbeat returns what the next heartbeat to the peer shall say.
	Heartbeat(to id.NodeID) Heartbeat
	// Late reports that a heartbeat of the peer has been missing for a moment, or one of this
	// node at the peer; Silent tells since when.
	Late(from id.NodeID)
	// HandleHeartbeat takes what a peer's heartbeat said. A peer without Heartbeats of its own is not
	// heard here.
	HandleHeartbeat(from Peer, b Heartbeat)
}

// Errors of sending.
var (
	ErrNotConnected = errors.New("transport: no link to the peer")
	ErrStreamFull   = errors.New("transport: too many bytes wait for the peer")
	ErrUnknownPeer  = errors.New("transport: address of the peer is not known")
	// ErrFrameTooLarge means that a frame can never be sent; it is not queued.
	ErrFrameTooLarge = errors.New("transport: frame is larger than the limit")
	// ErrClosed means that the Mux or the group's transport was closed.
	ErrClosed = errors.New("transport: closed")
)

// class is the metadata "quorate-link" of a Link stream: entries of logs, queue traffic,
// and what must never wait behind them, which is pings, heartbeats and votes.
type class string

const (
	classRaft    class = "raft"
	classQueue   class = "queue"
	classControl class = "beat"
)
