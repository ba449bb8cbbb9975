package transport

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/quorate/quorate/cluster/frame"
	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/grpcmem"
)

// local is what all connections of this node share: its settings, what it announces about itself, and what it knows
// about others, whichever end opened a connection. Each part has its own lock.
type local struct {
	config    Config
	log       *slog.Logger
	identity  identity
	codec     frame.Codec   // on memory
	memory    *grpcmem.Pool // of messages that are received or sent
	ctx       context.Context
	cancel    context.CancelFunc
	running   sync.WaitGroup // runs of peers, readers of accepted streams, connections for heartbeats
	pulses    *pulse.Set
	epochs    epochs
	refusals  refusals
	processes processes
	newEpoch  func(Peer) // ends connections to the incarnations of a node before this one
}

// noteEpoch drops the connections of older incarnations when a newer one shows up.
func (l *local) noteEpoch(p Peer) error {
	newer, err := l.epochs.note(p)
	if err == nil && newer {
		l.newEpoch(p)
	}
	return err
}

// checkSender refuses Raft calls in the name of another node than the stream's.
func checkSender(sender []byte, from Peer) error {
	if string(sender) == string(from.Node) {
		return nil
	}
	return fmt.Errorf("node %q sent a Raft call in the name of node %q: the server id in Raft configurations must be the node's id",
		from.Node, sender)
}

func (l *local) noGroup(g id.GroupID) error {
	return fmt.Errorf("no member of group %s runs on node %q: it is not started yet, or was removed from here", g, l.config.Node)
}

// silent reports that a member here takes no part.
func (l *local) silent(g id.GroupID) bool { return l.config.Silent != nil && l.config.Silent(g) }

func (l *local) noPart(g id.GroupID) error {
	return fmt.Errorf("the member of group %s on node %q takes no part yet: it has nothing stored, and the catalog has not let it begin",
		g, l.config.Node)
}

// noHandOver refuses leadership that a peer hands over.
func (l *local) noHandOver() error {
	return fmt.Errorf("node %q takes over no leadership: it drains, or is drained", l.config.Node)
}

// epochs remembers the newest epoch of every node that proved to be of the cluster.
type epochs struct {
	mu     sync.Mutex
	newest map[id.NodeID]id.Epoch
}

// note takes an epoch; newer reports that connections of an older one must go.
func (e *epochs) note(p Peer) (newer bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen := e.newest[p.Node]
	if p.Epoch < seen {
		return false, overErr(p, seen)
	}
	e.newest[p.Node] = p.Epoch
	return p.Epoch > seen, nil
}
