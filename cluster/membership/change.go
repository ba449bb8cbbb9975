package membership

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// A change of a queue's members is written in the catalog first, and carried out by the
// queue's leader: docs/adr/0006-changes-of-members.md. Any later leader continues from the record and the group's
// configuration, so every step may be repeated.

const (
	// MaxMemberChanges bounds the changes that one node carries out at the same time, as
	// each may send a whole queue. Most of a change is waiting for commits, one after another.
	MaxMemberChanges = 16
	// changeTick is the time between two attempts at changes that wait for something.
	changeTick = 250 * time.Millisecond
	// trailingShare: another voter may lack one in so many of the entries that stay behind that snapshot. The rest is for
	// those that come while it is taken.
	trailingShare = 2
	// joinTick is the interval between checks of a joining member's progress.
	joinTick = 50 * time.Millisecond
	// maxJoinLag is how many entries a member may lack when it gets its vote.
	maxJoinLag = 256
	// joinStall is how long an attempt waits for a joining member that makes no progress.
	joinStall = 2 * time.Second
	// joinPatience is how long a join may make no progress before it is taken back.
	joinPatience = 5 * time.Minute
	// memberTimeout bounds a question to a member, and a change of the configuration.
	memberTimeout = 2 * time.Second
)

// ChangerConfig are the parts that a Changer is made of. All are needed.
type ChangerConfig struct {
	Node    id.NodeID
	Logger  *slog.Logger
	Views   *metadata.Views
	Catalog *metadata.Group
	Members *replica.Host
	Leaders *leader.Leaders
	// Slots bounds the changes at the same time: each holds one; of capacity MaxMemberChanges.
	Slots chan struct{}
	// Reconfigured is notified that the members of a group may have changed.
	Reconfigured func(id.GroupID)
}

// Changer carries out the changes of queues that this node leads. All methods may be called
// concurrently.
type Changer struct {
	cfg   ChangerConfig
	woken chan struct{} // of capacity 1
	work  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	running map[id.QueueUID]struct{}
	waiting map[id.QueueUID]*changeState
}

// changeState is what is remembered of a change between attempts.
type changeState struct {
	id        uint64
	progress  operation.Progress
	shortened bool      // a snapshot was taken for the joining member, or was tried
	moved     time.Time // when the joining member last made progress
	applied   uint64    // by the joining member
	sent      int64     // of a snapshot to it: a new attempt is no progress until it is further than those before
}

// gains records what the joining member has applied and how much of a snapshot was sent to it, and reports whether it
// has applied more. Until it has the whole snapshot it applies nothing, which may take long. If the receiver stands
// still, so does what was sent: the stream does not continue without it.
func (s *changeState) gains(now time.Time, applied uint64, sent int64) (more bool) {
	more = applied > s.applied
	if more || sent > s.sent {
		s.moved = now
	}
	s.applied, s.sent = max(s.applied, applied), max(s.sent, sent)
	return more
}

// stuck reports whether the joining member has made no progress for too long.
func (s *changeState) stuck(now time.Time) bool { return now.Sub(s.moved) > joinPatience }

// NewChanger returns one that does nothing until Run is called.
func NewChanger(cfg ChangerConfig) *Changer {
	return &Changer{
		cfg: cfg, woken: make(chan struct{}, 1),
		running: map[id.QueueUID]struct{}{}, waiting: map[id.QueueUID]*changeState{},
	}
}

// wake makes the changer look for changes soon.
func (m *Changer) wake() {
	wait.Wake(m.woken)
}

// Wire returns the progress of a queue's change, or nil if this node carries out none.
func (m *Changer) Wire(q id.QueueUID) *nodev1.MemberChange {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.waiting[q]
	if s == nil {
		return nil
	}
	p := s.progress
	return &nodev1.MemberChange{Id: s.id, Phase: p.Phase, Done: p.Done, Total: p.Total, Unit: p.Unit, Detail: p.Detail}
}

// reports sets the progress of a change.
func (m *Changer) reports(s *changeState, p operation.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.progress = p
}

// waits reports why a change cannot go on now, and returns it as an error.
func (m *Changer) waits(s *changeState, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	m.reports(s, operation.Progress{Phase: PhaseWait, Detail: err.Error()})
	return err
}
