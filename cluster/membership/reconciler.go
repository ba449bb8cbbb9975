package membership

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
)

// ReconcileConfig configures how queues regain the number of members that they should have (RE-4). Zero values are
// the defaults.
type ReconcileConfig struct {
	// Disabled leaves everything to operators, lost members included.
	Disabled bool
	Interval time.Duration // between checks of all queues; 0: 60 min
	// Delay is the time that a node must have come or gone, or a policy have changed, before
	// members move, and voters of the catalog; 0: 10 s.
	Delay time.Duration
	// AutoRemove is the time after which a node that is not seen is lost for good, so that
	// others take its place; 0: never.
	AutoRemove time.Duration
	// ReplaceAfter is the time after which a node that has lost its disk, and comes with an empty data directory, is
	// let in if nothing is lost by that; 0: an operator decides.
	ReplaceAfter time.Duration
	// KeepLeaders leaves leaders where they are. Otherwise accumulated leaders are spread when nodes have neither
	// come nor gone for LeadersDelay, and every Interval (RE-10).
	KeepLeaders  bool
	LeadersDelay time.Duration // 0: 30 s
}

// Defaults of ReconcileConfig.
const (
	defaultReconcileInterval = time.Hour
	defaultReconcileDelay    = 10 * time.Second
	defaultLeadersDelay      = 30 * time.Second
)

// WithDefaults returns it with the defaults in the place of zero values.
func (c ReconcileConfig) WithDefaults() ReconcileConfig {
	c.Interval = cmp.Or(c.Interval, defaultReconcileInterval)
	c.Delay = cmp.Or(c.Delay, defaultReconcileDelay)
	c.LeadersDelay = cmp.Or(c.LeadersDelay, defaultLeadersDelay)
	return c
}

// ReconcilerConfig are the parts that a Reconciler is made of. All are needed.
type ReconcilerConfig struct {
	Settings  ReconcileConfig // with defaults
	Node      id.NodeID
	Logger    *slog.Logger
	View      func() *catalog.View
	Catalog   *metadata.Group
	Members   *replica.Host
	Nodes     Nodes
	Transport Transport
	Leaders   *leader.Leaders
	Placer    *Placer
	Operator  *Operator
	Policies  *policy.Matcher
	Judge     *metadata.Judge
	Disks     *disk.Board
	Events    *event.Journal
	// Operations run what takes long, so that it can be watched and cancelled.
	Operations *operation.Registry
	// CommandTimeout bounds a command without a leader (RE-5); not above 0: nothing does.
	CommandTimeout time.Duration
	Life           context.Context // ends when this node stops, and with it KeepSizes and Repair
}

// Reconciler brings queues to the number of members that they should have, and their leaders where
// they are even, while nobody asks (RE-4, RE-10). All methods may be called concurrently.
type Reconciler struct {
	cfg    ReconcilerConfig
	spread atomic.Uint64 // queues that SpreadLeaders has handed over
}

// NewReconciler returns one.
func NewReconciler(cfg ReconcilerConfig) *Reconciler { return &Reconciler{cfg: cfg} }
