// Package membership finds the nodes of the cluster by gossip (memberlist) and tells who
// seems reachable. What it says are hints: Raft configurations and placement never follow
// from gossip alone.
package membership

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/quorate/quorate/id"
)

// Node is a member of the cluster as gossip shows it.
type Node struct {
	ID         id.NodeID
	Epoch      id.Epoch
	PeerAddr   string // host:port of the node-to-node API
	ClientAddr string // host:port of the clients' API
	Version    string
	Alive      bool
}

// Config describes this node. Zero values are the defaults.
type Config struct {
	Cluster    string
	Node       Node
	BindAddr   string   // host:port for TCP and UDP
	Advertise  string   // host:port as others reach it; "": BindAddr
	Join       []string // host:port or DNS names with port, which may have several addresses
	Key        []byte   // 16, 24 or 32 bytes; empty: gossip is not encrypted
	Logger     *slog.Logger
	JoinEvery  time.Duration // retry of Join while peers are missing; 0: 1 s
	ProbeEvery time.Duration // 0: memberlist's LAN default
}

// Event tells that a node joined, changed or left.
type Event struct {
	Node Node
}

// Membership is this node's view. All methods may be called concurrently.
type Membership struct{}

// Start begins to gossip and to join; it returns when this node listens.
func Start(c Config) (*Membership, error) { return nil, errors.New("membership: not yet") }

// Nodes returns all known nodes, this one included, ordered by id.
func (m *Membership) Nodes() []Node { return nil }

// Events returns the channel of changes: the newest state per node, none lost.
func (m *Membership) Events() <-chan Event { return nil }

// Leave tells the others that this node goes on purpose, then stops.
func (m *Membership) Leave(ctx context.Context) error { return nil }
