package metadata

import (
	"context"
	"log/slog"
	"time"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/cluster/liveness"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Config is what a Group is made of. All is needed but Failed.
type Config struct {
	Cluster string // its name
	Node    id.NodeID
	Epoch   id.Epoch
	// PeerAddr and ClientAddr are where others reach this node: it is registered with them.
	PeerAddr, ClientAddr string
	Join                 []string // where this node looks for others; shown to whoever waits for it
	Expect               int      // nodes that found the cluster together
	ManualFinalise       bool     // an operator finalises newer versions
	// CommandTimeout bounds a command without a leader (RE-5); not above 0: its caller does.
	CommandTimeout     time.Duration
	PropagationTimeout time.Duration // for so long a change waits for other nodes' views (EX-15); 0: 250 ms
	Staleness          time.Duration // how old a view may be that decides what does not exist (EX-16)
	AwayAfter          time.Duration // for so long a voter has been away whose vote another may get

	Logger    *slog.Logger
	Source    nodeclock.Source // this machine's clocks
	Clock     *nodeclock.Clock // the cluster's
	Dir       *datadir.Dir
	Admission *Admission
	Views     *Views
	Journal   Journal
	Mux       *transport.Mux
	Liveness  *liveness.Manager
	Disk      Disk
	Peers     Peers

	// Gossip returns the nodes that gossip knows. It is asked once Run was called, or a connection is there.
	Gossip func() []gossip.Node
	// Registered is called when the catalog has taken this node. It must not block.
	Registered func()
	// Failed is notified that this node is to start over (ErrFailed), or to end since the catalog's log cannot be
	// written (raftfsm.ErrWriteFailed); nil: nothing is called.
	Failed func(error)
	Life   context.Context // ends when this node stops, and with it Run and all calls
}

// Disk is the state of this node's disk.
type Disk interface {
	Hangs() bool // a write does not return
	Low() bool   // space is short
}

// Peers are the other nodes that the catalog knows.
type Peers interface {
	// Ask asks all at once. What ask returns is run afterwards, one after another, as is silent for
	// nodes that do not answer.
	Ask(ctx context.Context, ask func(context.Context, id.NodeID, nodev1.NodeClient) (func() error, error), silent func(id.NodeID)) error
}
