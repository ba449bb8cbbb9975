package membership

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
)

// OperatorConfig are the parts that an Operator is made of. All are needed.
type OperatorConfig struct {
	Node      id.NodeID
	Logger    *slog.Logger
	Views     *metadata.Views
	Catalog   *metadata.Group
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

// AddMember makes a node a member of a queue (RE-3). It returns when the node votes.
//
// This and all operations below: report, if not nil, is called from one goroutine and
// must not block. The end of ctx takes back what has not taken effect; what cannot be
// taken back any more is finished by the queue's leader. A change survives the loss of
// the leader and of this node. One change at a time per queue: others wait.
func (o *Operator) AddMember(ctx context.Context, q id.QueueUID, n id.NodeID, report func(operation.Progress)) error {
	grown := func(r *catalog.QueueRecord) int { return len(r.Members) + 1 }
	return o.changeOne(ctx, catalog.BeginMemberChange{UID: q, Join: n}, grown, report)
}

// RemoveMember takes a node out of a queue (RE-3). It is refused for the last member, and
// waits while those that stay are not a majority that is there.
func (o *Operator) RemoveMember(ctx context.Context, q id.QueueUID, n id.NodeID, report func(operation.Progress)) error {
	if _, registered := o.cfg.Views.View().Node(n); !registered {
		return fmt.Errorf("cluster: node %q is not registered in the cluster", n)
	}
	shrunk := func(r *catalog.QueueRecord) int { return max(1, len(r.Members)-1) }
	return o.changeOne(ctx, catalog.BeginMemberChange{UID: q, Leave: n}, shrunk, report)
}

// ReplaceMember makes one node a member, then takes another out. With from equal to to the
// member is rebuilt from the others.
func (o *Operator) ReplaceMember(ctx context.Context, q id.QueueUID, from, to id.NodeID, report func(operation.Progress)) error {
	return o.changeOne(ctx, catalog.BeginMemberChange{UID: q, Join: to, Leave: from}, nil, report)
}
