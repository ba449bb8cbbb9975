// Package transport carries everything that nodes of one cluster say to each other: one
// gRPC connection from each node to each peer, with a stream for the Raft calls of all
// groups, a stream for queue traffic, and calls for the rest.
//
// Links are kept up by themselves. What is lost with a link is lost: callers learn that
// the link went down and repeat what they must.
package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Peer is the other end of a link: a node in one of its incarnations.
type Peer struct {
	Node  id.NodeID
	Epoch id.Epoch
}

// Handler receives queue traffic. Calls for one peer and direction come one at a time
// and in order; they must not block.
type Handler interface {
	// HandleRequest takes a frame that a peer sent on the link which it opened: commands
	// and Resume. Answers go through reply, which may be called later, from anywhere,
	// until the link is down: it never blocks and returns ErrLinkDown or ErrLinkFull.
	HandleRequest(from Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error)
	// HandleAnswer takes a frame that came back on this node's own link to the peer:
	// replies, deliveries, notices.
	HandleAnswer(from Peer, f *nodev1.Frame)
	// LinkUp and LinkDown tell of this node's own queue link to the peer.
	LinkUp(p Peer)
	LinkDown(p Peer)
	// Inbound tells that a peer's queue link to this node came up or went down.
	Inbound(p Peer, up bool)
}

// Config describes this node's end. Zero values are the defaults.
type Config struct {
	Node    id.NodeID
	Epoch   id.Epoch
	Cluster string
	// Key is the cluster's secret, the same as for gossip; empty: peers are not checked.
	Key     []byte
	Handler Handler
	// Calls answers the calls of proto/node/v1 other than Link and InstallSnapshot.
	Calls  nodev1.NodeServer
	Logger *slog.Logger

	MaxFrameBytes     int // bytes of one frame; 0: 64 MiB
	MaxLinkQueueBytes int // bytes waiting to be sent on one link; 0: 64 MiB
	MaxRaftInFlight   int // AppendEntries in flight per group and peer; 0: 8
}

// Errors of sending.
var (
	ErrLinkDown    = errors.New("transport: no link to the peer")
	ErrLinkFull    = errors.New("transport: too many bytes wait for the peer")
	ErrUnknownPeer = errors.New("transport: address of the peer is not known")
)

// Mux is this node's end of all links. All methods may be called concurrently.
type Mux struct{}

// New returns a Mux without peers.
func New(c Config) (*Mux, error) { return nil, errors.New("transport: not yet") }

// Serve accepts peers until Close; it returns nil after Close.
func (m *Mux) Serve(l net.Listener) error { return nil }

// SetPeer tells where a peer is; an unchanged address does nothing. The Mux connects,
// and goes on trying, until RemovePeer.
func (m *Mux) SetPeer(n id.NodeID, address string) {}

// RemovePeer drops the links to a peer.
func (m *Mux) RemovePeer(n id.NodeID) {}

// Send queues a frame on this node's own queue link to the peer. It never blocks.
func (m *Mux) Send(n id.NodeID, f *nodev1.Frame) error { return nil }

// Connected tells whether this node's links to the peer are up, and its epoch.
func (m *Mux) Connected(n id.NodeID) (id.Epoch, bool) { return 0, false }

// Client returns the peer's calls on the shared connection.
func (m *Mux) Client(n id.NodeID) (nodev1.NodeClient, error) { return nil, ErrUnknownPeer }

// Raft returns the group's transport. ServerID and ServerAddress are both the node's id.
// Closing it (raft.WithClose) ends the group here.
func (m *Mux) Raft(g id.GroupID) raft.Transport { return nil }

// Close drops all links and stops Serve.
func (m *Mux) Close(ctx context.Context) error { return nil }
