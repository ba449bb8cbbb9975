// Package transport carries all traffic between the nodes of a cluster. Each node has one gRPC
// connection to each peer, with a stream for the log entries of all Raft groups, a stream for queue
// traffic, a stream for Raft's heartbeats, votes and pings, and calls for the rest. Each two nodes
// also have one small connection for heartbeats.
//
// The package reconnects automatically. Traffic in flight is lost with its connection: callers are
// notified that the peer was lost and repeat what they need. DESIGN.md has the reasons for this
// design.
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
	Store id.StoreID // of its data directory; "": not reported
	// Fresh reports that no catalog had admitted that store when the peer connected.
	Fresh bool
	// Began is an index of the catalog at which the node was registered with that store: an older view need not show
	// it. 0: not reported.
	Began uint64
}

// Handler receives queue traffic. Calls for one peer and direction are sequential and in order;
// they must not block.
type Handler interface {
	// HandleRequest handles a frame from a stream that the peer opened: commands and Resume.
	// Answers go through reply, which may be called later, from anywhere, until the connection is
	// down: it never blocks and returns ErrNotConnected or ErrStreamFull.
	HandleRequest(from Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error)
	// HandleAnswer handles a frame from this node's own connection to the peer: replies,
	// deliveries, notices.
	HandleAnswer(from Peer, f *nodev1.Frame)
	// PeerUp and PeerDown report this node's own queue stream to the peer.
	PeerUp(p Peer)
	PeerDown(p Peer)
	// Inbound reports that a peer's queue stream to this node came up or went down.
	Inbound(p Peer, up bool)
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
