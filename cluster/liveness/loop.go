package liveness

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/phase"
)

// Run watches until ctx ends, and returns when everything that it began has ended.
func (m *Manager) Run(ctx context.Context) {
	defer m.work.Wait()
	t := schedule{tick: m.config.Tick}
	t.looked(time.Now(), t.tick)
	alarm := time.NewTimer(t.tick)
	defer alarm.Stop()
	for {
		select {
		case <-alarm.C:
		case <-m.wake:
			t.wake(time.Now())
		case <-ctx.Done():
			return
		}
		switch begin := time.Now(); {
		case t.lookDue(begin):
			wait := m.step(ctx, t.wait)
			t.looked(time.Now(), wait)
		case t.stepDue(begin):
			m.step(ctx, 0)
			t.stepped(begin, time.Now())
		}
		alarm.Reset(time.Until(t.next()))
	}
}

// step checks connections and disks, does what core decides, and returns the time to the next step. waited is how
// long the loop meant to wait for this one, 0 if it was woken.
func (m *Manager) step(ctx context.Context, waited time.Duration) time.Duration {
	m.mu.Lock()
	now := time.Now()
	unanswered := false // a peer has not answered at once
	if waited == 0 {
		m.core.awake(now, m.config.Rest)
	} else {
		m.core.awake(now, waited)
		for n := range m.core.peers {
			silent, up := m.config.Transport.Silent(n)
			m.core.note(now, n, m.config.Transport.Overdue(n), up)
			dead := up && silent >= m.config.SuspectAfter/2 && m.config.Dead(n)
			m.core.look(now, n, silent, up, dead)
			unanswered = unanswered || up && silent >= m.config.Tick
		}
		m.check(now)
	}
	a := m.core.tick(now)
	round := m.round(a.survey)
	m.stats.Surveys += uint64(len(round.nodes))
	m.stats.StepDowns += uint64(len(a.stepDown))
	m.stats.Asks += uint64(len(a.ask))
	push := m.members(a.push)
	stepDown := m.members(a.stepDown)
	wait := m.config.Tick
	if m.resting = !unanswered && m.core.idle(); m.resting {
		wait = phase.Wait(now, m.config.Rest)
	}
	m.mu.Unlock()

	for _, g := range push {
		g.Push()
	}
	for i, g := range stepDown {
		m.act(ctx, a.stepDown[i], func(ctx context.Context) error { return g.StepDown(ctx, 0) })
	}
	if len(round.groups) > 0 {
		m.work.Go(func() { m.survey(ctx, round) })
	}
	for _, n := range a.ask {
		m.work.Go(func() { m.ask(ctx, n) })
	}
	return wait
}

// check looks again at groups that are not as they should be, and at some of the others:
// what was missed would be missed for good otherwise.
func (m *Manager) check(now time.Time) {
	if now.Sub(m.checked) < checkEvery {
		return
	}
	m.checked = now
	for _, g := range m.core.doubtful(maxChecked) {
		m.observe(now, g)
	}
	for g := range m.core.outside {
		m.observe(now, g)
	}
	if len(m.sweep) == 0 {
		m.sweep = slices.AppendSeq(m.sweep, maps.Keys(m.groups))
	}
	part := min(len(m.sweep), len(m.groups)/sweepChecks+1)
	for _, g := range m.sweep[len(m.sweep)-part:] {
		m.observe(now, g)
	}
	m.sweep = m.sweep[:len(m.sweep)-part]
}
