package membership

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
)

// OperatorConfig are the parts that an Operator is made of. All are needed.
type OperatorConfig struct {
	Node      id.NodeID
	Logger    *slog.Logger
	Views     *metadata.Views
	Catalog   *metadata.Group
	Members   *replica.Host
	Transport Transport
	Leaders   *leader.Leaders
	Placer    *Placer
	Unloader  *Unloader
	Jobs      *peer.Operations
	Judge     *metadata.Judge
	Events    *event.Journal
	// CommandTimeout bounds a command without a leader (RE-5); not above 0: nothing does.
	CommandTimeout time.Duration
	Life           context.Context // ends when this node stops
}

// Operator carries out what operators ask for (RE-3), and declares queues. All methods may be called
// concurrently.
type Operator struct {
	cfg      OperatorConfig
	replaced atomic.Uint64 // nodes whose stores this one has given up
}

// NewOperator returns one.
func NewOperator(cfg OperatorConfig) *Operator { return &Operator{cfg: cfg} }
