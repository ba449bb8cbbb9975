package membership

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
)

// maxParallelTransfers bounds the groups that hand leadership over at the same time.
const maxParallelTransfers = 8

// UnloaderConfig are the parts that an Unloader is made of. All are needed.
type UnloaderConfig struct {
	Node      id.NodeID
	Logger    *slog.Logger
	View      func() *catalog.View
	Catalog   *metadata.Group
	Members   *replica.Host
	Transport Transport
	Disks     *disk.Board
	Peers     *peer.Peers
	// Operations run drains, so that they can be watched and cancelled.
	Operations *operation.Registry
	Life       context.Context // ends when this node stops
}

// Unloader takes off this node what it leads: all of it for a drain, and what others can lead while
// its disk is low. All methods may be called concurrently.
type Unloader struct {
	cfg      UnloaderConfig
	drain    sync.Mutex // guards changes of draining, and of what the transport takes over
	draining atomic.Bool
	stopping atomic.Bool   // the drain can no longer be undone
	turn     atomic.Uint64 // counts tries to hand a leader over: one that a member refuses goes to the next one
}

// NewUnloader returns one.
func NewUnloader(cfg UnloaderConfig) *Unloader { return &Unloader{cfg: cfg} }
