package liveness

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// Manager watches peers for the groups that it was given. All methods may be called
// concurrently. It implements pulse.Heartbeats.
type Manager struct {
	config Config
	wake   chan struct{} // of capacity 1: do not wait for the tick
	work   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	core    *core
	groups  map[id.GroupID]Group
	hanging map[id.GroupID]struct{} // groups whose write to disk hangs
	stats   Stats
	checked time.Time
	sweep   []id.GroupID // groups that the sweep has still to check
	resting bool         // the loop waits for Config.Rest
}

// Stats are figures since the start, unless noted otherwise.
type Stats struct {
	Groups    int    // now
	Needs     int    // groups without a leader that is alive, now
	Lost      int    // peers that do not answer, now
	Unsteady  int    // peers that come and go, now
	Surveys   uint64 // messages that asked a peer
	Campaigns uint64
	StepDowns uint64 // of stuck candidates, and of leaders without a quorum
	Asks      uint64 // questions to peers whose heartbeats were at odds
}

// New returns a Manager without groups; it does nothing before Run.
func New(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	return &Manager{
		config: c, wake: make(chan struct{}, 1), core: newCore(c),
		groups: map[id.GroupID]Group{}, hanging: map[id.GroupID]struct{}{},
	}, nil
}

// Add hands a group over. Changed must be called whenever its leader, term, state or
// voters change.
func (m *Manager) Add(g id.GroupID, member Group) {
	m.mu.Lock()
	m.groups[g] = member
	m.mu.Unlock()
	m.Changed(g)
}

// Remove takes a group back.
func (m *Manager) Remove(g id.GroupID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.groups, g)
	m.disk(g, false)
	m.core.forget(g)
}

// RequestElection lets a group that has no leader elect one now: somebody waits for it. If logs are equal, the member of
// the node that led it formerly stands first; "" prefers nobody.
func (m *Manager) RequestElection(g id.GroupID, formerly id.NodeID) {
	m.mu.Lock()
	m.core.requestElection(time.Now(), g, formerly)
	m.mu.Unlock()
	m.wakeUp()
}

// Changed checks a group's member.
func (m *Manager) Changed(g id.GroupID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observe(time.Now(), g)
	m.rouse()
}

// rouse ends the loop's rest if there is something to do. The lock is held.
func (m *Manager) rouse() {
	if m.resting && !m.core.idle() {
		m.resting = false
		m.wakeUp()
	}
}

// observe is called with the lock held, so that what is read stays in order.
func (m *Manager) observe(now time.Time, g id.GroupID) {
	member := m.groups[g]
	if member == nil {
		return
	}
	o := observed{state: member.State(), active: member.Active(), proven: member.Leading()}
	o.leader, o.term = member.Leader()
	voters, nonvoters, err := member.Servers()
	if err != nil || member.Failed() != nil {
		m.disk(g, false)
		m.core.forget(g) // it stopped
		return
	}
	o.voters, o.nonvoters, o.behind = voters, nonvoters, member.Behind()
	o.leaving = !slices.Contains(voters, m.config.Node) && member.Leaving()
	m.disk(g, member.Stalled())
	m.core.observe(now, g, o)
}

// ConnectionChanged reports that a connection came up or went down.
func (m *Manager) ConnectionChanged(n id.NodeID, up bool) {
	m.mu.Lock()
	m.core.judge(time.Now(), n, !up)
	m.mu.Unlock()
	m.wakeUp()
}

// wakeUp never blocks: one wake-up that is not taken yet stands for all.
func (m *Manager) wakeUp() {
	wait.Wake(m.wake)
}

// Late implements pulse.Heartbeats: the loop checks at once what is missing.
func (m *Manager) Late(id.NodeID) { m.wakeUp() }

// Heartbeat implements pulse.Heartbeats.
func (m *Manager) Heartbeat(to id.NodeID) pulse.Heartbeat {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.core.peer(to).led
	return pulse.Heartbeat{Led: d.count, LedHash: d.sum, Stalled: m.core.stalled}
}

// HandleHeartbeat implements pulse.Heartbeats.
func (m *Manager) HandleHeartbeat(from id.NodeID, b pulse.Heartbeat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.core.heartbeat(time.Now(), from, b)
	m.rouse()
}

// Answer answers a peer's survey. A group that is led here notifies its followers.
func (m *Manager) Answer(groups []Surveyed) []Answer {
	answers := make([]Answer, len(groups))
	members := make([]Group, len(groups))
	for from := 0; from < len(groups); from += maxLocked {
		to := min(from+maxLocked, len(groups))
		m.mu.Lock()
		now := time.Now()
		for i, s := range groups[from:to] {
			m.observe(now, s.Group)
			members[from+i], answers[from+i] = m.groups[s.Group], m.core.answer(now, s.Group)
		}
		m.rouse()
		m.mu.Unlock()
	}
	for i, s := range groups {
		a := &answers[i]
		if a.Leads && s.LastIndex > 0 { // without a log it asks for the answer alone
			members[i].Push()
		}
		if a.Votes = a.Votes && members[i].VotesFor(s.LastTerm, s.LastIndex); a.Votes {
			var err error
			a.LastTerm, a.LastIndex, err = members[i].Position()
			a.Votes = err == nil
		}
	}
	return answers
}

// Led reports whether this node's member knows a leader that is alive, or is one that reaches
// a quorum's nodes.
func (m *Manager) Led(g id.GroupID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.led(g)
}

// Reaches reports whether a node answers.
func (m *Manager) Reaches(n id.NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.reaches(n)
}

// Steady reports whether a node is there all the time, as this one sees it; this one is.
func (m *Manager) Steady(n id.NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.core.peers[n]
	return p == nil || !p.steady.unsteady(time.Now())
}

// Lost appends, for each of the nodes that is lost, since when it has been; a zero time for one that was
// never there.
func (m *Manager) Lost(since []time.Time, nodes iter.Seq[id.NodeID]) []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range nodes {
		switch p := m.core.peers[n]; {
		case n == m.config.Node:
		case p == nil:
			since = append(since, time.Time{})
		case p.lost:
			since = append(since, p.judged)
		}
	}
	return since
}

// Stats returns the figures of the moment.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Groups, s.Needs = len(m.groups), len(m.core.needs)
	now := time.Now()
	for _, p := range m.core.peers {
		if p.lost {
			s.Lost++
		}
		if p.steady.unsteady(now) {
			s.Unsteady++
		}
	}
	return s
}

// disk notes whether a group's write hangs.
func (m *Manager) disk(g id.GroupID, hangs bool) {
	if hangs {
		m.hanging[g] = struct{}{}
	} else {
		delete(m.hanging, g)
	}
	if stalled := len(m.hanging) > 0; m.core.stalled != stalled {
		m.core.stalled = stalled
		m.config.Transport.Say()
		m.config.Logger.Warn("a write to the disk hangs, or hangs no longer", "hangs", stalled)
	}
}

// members returns the groups in the same order; those that were removed are not in core.
func (m *Manager) members(groups []id.GroupID) []Group {
	all := make([]Group, len(groups))
	for i, g := range groups {
		all[i] = m.groups[g]
	}
	return all
}

// act lets a member campaign or step down, off the loop.
func (m *Manager) act(ctx context.Context, g id.GroupID, do func(context.Context) error) {
	m.work.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, actTimeout)
		defer cancel()
		if err := do(ctx); err != nil && ctx.Err() == nil {
			m.config.Logger.Debug("election", "group", g.String(), "error", err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		now := time.Now()
		m.observe(now, g)
		m.core.acted(now, g)
	})
}
