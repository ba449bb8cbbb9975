package liveness

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
)

// round is one survey: groups in need, and the nodes to ask about each.
type round struct {
	groups  []id.GroupID
	members []Group
	nodes   map[id.NodeID][]id.GroupID
}

// round is called with the lock held.
func (m *Manager) round(groups []id.GroupID) round {
	r := round{groups: groups, members: m.members(groups), nodes: map[id.NodeID][]id.GroupID{}}
	for _, g := range groups {
		for _, n := range m.core.others(g) {
			r.nodes[n] = append(r.nodes[n], g)
		}
	}
	return r
}

// survey asks the nodes, all at the same time, and lets those campaign whose turn it is.
func (m *Manager) survey(ctx context.Context, r round) {
	mine := make(map[id.GroupID]Surveyed, len(r.groups))
	for i, g := range r.groups {
		if term, index, err := r.members[i].Position(); err == nil {
			mine[g] = Surveyed{g, term, index}
		}
	}
	var mu sync.Mutex
	answers := map[id.GroupID]map[id.NodeID]Answer{}
	var all sync.WaitGroup
	for n, groups := range r.nodes {
		all.Go(func() {
			for g, a := range m.askAbout(ctx, n, groups, mine) {
				mu.Lock()
				if answers[g] == nil {
					answers[g] = map[id.NodeID]Answer{}
				}
				answers[g][n] = a
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for _, i := range m.conclude(r.groups, mine, answers) {
		m.act(ctx, r.groups[i], r.members[i].Campaign)
	}
}

// conclude returns which of the groups, by position, should campaign. It takes the lock once, because many others
// want it too.
func (m *Manager) conclude(groups []id.GroupID, mine map[id.GroupID]Surveyed, answers map[id.GroupID]map[id.NodeID]Answer) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	var campaign []int
	for i, g := range groups {
		if at, readable := mine[g]; !readable {
			m.core.acted(now, g)
		} else if m.core.conclude(now, at, answers[g]) {
			m.stats.Campaigns++
			campaign = append(campaign, i)
		}
	}
	return campaign
}

// askAbout asks a node about groups. One that does not answer in time has no answers.
func (m *Manager) askAbout(
	ctx context.Context, n id.NodeID, groups []id.GroupID, mine map[id.GroupID]Surveyed,
) map[id.GroupID]Answer {
	ctx, cancel := context.WithTimeout(ctx, m.config.SurveyTimeout)
	defer cancel()
	got := make(map[id.GroupID]Answer, len(groups))
	for len(groups) > 0 {
		part := groups[:min(len(groups), maxSurveyed)]
		groups = groups[len(part):]
		questions := make([]Surveyed, len(part))
		for i, g := range part {
			if s, known := mine[g]; known {
				questions[i] = s
			} else {
				questions[i] = Surveyed{Group: g}
			}
		}
		answers, err := m.call(ctx, n, questions)
		if err != nil {
			m.config.Logger.Debug("survey without an answer", "peer", string(n), "groups", len(part), "error", err)
			return got
		}
		for i, g := range part {
			got[g] = answers[i]
		}
	}
	return got
}

// ask finds out which of the groups that a peer is believed to lead it does not.
func (m *Manager) ask(ctx context.Context, n id.NodeID) {
	m.mu.Lock()
	believed := m.core.ledBy(n)
	m.mu.Unlock()
	groups := make([]id.GroupID, len(believed))
	for i, b := range believed {
		groups[i] = b.group
	}
	answers := m.askAbout(ctx, n, groups, nil)
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range believed {
		if a, answered := answers[b.group]; answered && !a.Leads {
			m.core.deny(now, n, b)
		}
	}
}
