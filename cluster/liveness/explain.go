package liveness

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorate/quorate/id"
)

// Explain returns in one line what is known here of a group's member, and what is to happen
// next: for logs and for tests that failed.
func (m *Manager) Explain(g id.GroupID) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.core.explain(time.Now(), g)
}

// explain may change its wording at any time: nothing reads it but people.
func (c *core) explain(now time.Time, g id.GroupID) string {
	m := c.groups[g]
	if m == nil {
		return "not known"
	}
	ago := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return now.Sub(t).Round(time.Millisecond).String() + " ago"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v in term %d, leader %q (denied %v), voters %v (stands %v)", m.state, m.term, m.leader, m.denied, m.voters, m.stands)
	if c.needs[g] != nil {
		fmt.Fprintf(&b, "; in need since %s, next attempt %s, busy %v, candidates waited for %d, surveys %d, lost elections %d, candidate since %s",
			ago(m.since), ago(m.notBefore), m.busy, m.skipped, m.surveys, m.attempts, ago(m.candidate))
	}
	if c.starved[g] != nil {
		fmt.Fprintf(&b, "; no quorum in reach since %s, busy %v", ago(m.starving), m.busy)
	}
	if c.unproven[g] != nil {
		fmt.Fprintf(&b, "; leads without a commit since %s, busy %v", ago(m.proving), m.busy)
	}
	if c.stalled {
		b.WriteString("; own disk hangs")
	}
	for _, v := range m.voters {
		if p := c.peers[v]; p != nil {
			fmt.Fprintf(&b, "; %s: lost %v, disk hangs %v, leads %d, believed %d, at odds since %s",
				v, p.lost, p.stalled, p.said.count, p.believed.count, ago(p.mismatchedSince))
		}
	}
	return b.String()
}
