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
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// A change of a queue's members is written in the catalog first, and carried out by the
// queue's leader: docs/adr/0006-changes-of-members.md. Whoever leads goes on from the
// record and the group's configuration, so every step may be repeated.

const (
	// MaxMemberChanges bounds the changes that one node carries out at the same time, as
	// each may send a whole queue.
	MaxMemberChanges = 4
	// changeTick is the time between two attempts at changes that wait for something.
	changeTick = 250 * time.Millisecond
	// joinTick is the time between two looks at how far a joining member is.
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
	id       uint64
	progress operation.Progress
	moved    time.Time // when the joining member last made progress
	applied  uint64    // by the joining member
}

// NewChanger returns one that does nothing until Run is called.
func NewChanger(cfg ChangerConfig) *Changer {
	return &Changer{
		cfg: cfg, woken: make(chan struct{}, 1),
		running: map[id.QueueUID]struct{}{}, waiting: map[id.QueueUID]*changeState{},
	}
}

// wake lets the changer look for changes soon.
func (m *Changer) wake() {
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

// Run carries out changes until stop is closed.
func (m *Changer) Run(stop <-chan struct{}) {
	defer m.work.Wait()
	for {
		changed := m.cfg.Views.Next()
		var again <-chan time.Time
		if m.start() {
			again = time.After(changeTick)
		}
		select {
		case <-again:
		case <-changed:
		case <-m.woken:
		case <-m.cfg.Members.Changes():
		case <-stop:
			return
		}
	}
}

// start begins an attempt at every change of a queue that this node leads, as far as
// there are slots. It reports whether there are such changes.
func (m *Changer) start() (some bool) {
	v := m.cfg.Views.View()
	pending := map[id.QueueUID]struct{}{}
	for _, q := range m.cfg.Members.Changing() {
		r, ok := v.QueueByUID(q.UID())
		if !ok || r.Change == nil || q.Led() == nil {
			continue
		}
		pending[q.UID()] = struct{}{}
		s := m.claim(q.UID(), r.Change.ID)
		if s == nil {
			continue
		}
		m.work.Go(func() {
			err := m.change(q.Life(), q, s)
			m.release(q.UID())
			if err == nil {
				m.wake()
			} else if q.Life().Err() == nil {
				m.cfg.Logger.Debug("a change of members waits", "queue", q.UID().String(), "error", err)
			}
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.waiting {
		if _, still := pending[uid]; !still {
			delete(m.waiting, uid)
		}
	}
	return len(pending) > 0
}

// claim takes a slot for a change, unless it has one or there is none, and returns what is
// remembered of it.
func (m *Changer) claim(q id.QueueUID, change uint64) *changeState {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, busy := m.running[q]; busy {
		return nil
	}
	select {
	case m.cfg.Slots <- struct{}{}:
	default:
		return nil
	}
	m.running[q] = struct{}{}
	s := m.waiting[q]
	if s == nil || s.id != change {
		s = &changeState{id: change, moved: time.Now(), progress: operation.Progress{Phase: PhaseWait}}
		m.waiting[q] = s
	}
	return s
}

// release gives the slot back that the change had taken.
func (m *Changer) release(q id.QueueUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.running, q)
	<-m.cfg.Slots
}

// Wire returns how far the change of a queue is, nil if this node carries out none.
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
