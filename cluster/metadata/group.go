package metadata

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// Group is this node's member of the catalog group. All methods may be called concurrently.
type Group struct {
	cfg         Config
	raft        *raftfsm.Group[catalog.Reply, NoEffects]
	admission   *Admission
	assurance   *assurance
	propagation *propagation

	opened catalog.Version // the finalised version that the files had

	givenUp    atomic.Pointer[error] // why the member is to be rebuilt; nil: it is not
	news       *memberNews
	joined     chan struct{}         // of capacity 1: the catalog knows this node now, and did not before
	registered atomic.Uint64         // catalog index of this start's registration; 0: not yet
	unlike     atomic.Pointer[error] // nodes whose Expect is another, as last seen; nil: none
	// leaderless is since when Ready has seen no leader, in nanoseconds of the monotonic
	// clock; 0: it has one. ledOnce reports that it had one before.
	leaderless atomic.Int64
	ledOnce    atomic.Bool
	seatedOnce atomic.Bool // seated found nothing missing once in this life
	// created and deleted count the queues that came and went by commands of this node.
	created, deleted atomic.Uint64
}

// leaderlessGrace is how long a node stays ready while the catalog elects a leader: its queues continue meanwhile,
// and callers of the catalog wait as long (RE-5, RE-6).
const leaderlessGrace = 5 * time.Second

const (
	// catalogRetry is the wait between attempts to reach the catalog's leader.
	catalogRetry = 50 * time.Millisecond
	// catalogAttempt bounds one attempt.
	catalogAttempt = 2 * time.Second
	// catalogPush is the first wait before other nodes are notified of anything but a change: that
	// goes out at once, because who made it waits until they have it (EX-15).
	catalogPush = 2 * time.Millisecond
	// firstElection bounds the wait for a new group's first candidate to stand.
	firstElection = 500 * time.Millisecond
)

// Raft returns the Raft group, for its progress, its members and transfers of its leadership. Commands go through
// Propose.
func (g *Group) Raft() *raftfsm.Group[catalog.Reply, NoEffects] { return g.raft }

func (g *Group) view() *catalog.View { return g.cfg.Views.View() }

// Registered returns the index of the catalog at which it has taken this start of the node; 0: it
// has not yet.
func (g *Group) Registered() uint64 { return g.registered.Load() }

// Joined has one element once the catalog has taken this node that it did not know, or had given up.
func (g *Group) Joined() <-chan struct{} { return g.joined }

// Refusal returns why this node may not take part: the catalog refuses it, or peers refuse it and none accepts it.
func (g *Group) Refusal() error {
	return g.admission.refusal(func() bool {
		return slices.ContainsFunc(g.cfg.Gossip(), func(n gossip.Node) bool {
			_, up := g.cfg.Mux.Connected(n.ID)
			return up
		})
	})
}

// Founded reports whether the member has state: it was bootstrapped, or a leader has
// written to it.
func (g *Group) Founded() bool {
	s := g.raft.Stats()
	return s.LastIndex > 0 || s.SnapshotIndex > 0
}

// Leader returns the group's leader if it is alive, as far as this node knows: the group
// itself remembers one until there is another.
func (g *Group) Leader() id.NodeID {
	if !g.cfg.Liveness.Led(id.CatalogGroup) {
		return ""
	}
	leader, _ := g.raft.Leader()
	return leader
}

// Leads reports whether this node leads the group, as far as it knows.
func (g *Group) Leads() bool { return g.Leader() == g.cfg.Node }
