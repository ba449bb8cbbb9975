package liveness

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
)

const (
	// stressBound is how long a group with a majority may be without a leader that
	// commits: far more than it takes, far less than raft's own timers.
	stressBound = time.Minute
	// stressGrace is the wait of a member without a configuration for the first leader.
	stressGrace = 800 * time.Millisecond
	// stressMisses: one of so many changes of a member is not reported to its node's Manager.
	stressMisses = 10
)

// stress is a cluster under a seeded schedule of faults. After each one every group with
// a majority must have a leader that commits, and when it is over on all members.
type stress struct {
	*nodes
	names     []id.NodeID // of the nodes, whichever run
	random    *rand.Rand
	next      id.GroupID // of the group that is made next
	failovers int
	slowest   time.Duration
	late      sync.WaitGroup
}

// stressFailovers is how many changes of leaders to go through.
func stressFailovers(t *testing.T) (failovers int, seed uint64) {
	failovers, seed = 100, 1
	if testing.Short() {
		failovers = 20
	}
	for name, set := range map[string]func(int){
		"QUORATE_STRESS_FAILOVERS": func(n int) { failovers = n },
		"QUORATE_STRESS_SEED":      func(n int) { seed = uint64(n) },
	} {
		if v := os.Getenv(name); v != "" {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 {
				t.Fatalf("%s is %q: set a number", name, v)
			}
			set(n)
		}
	}
	return failovers, seed
}

// Nodes die, freeze, are cut off and hang at random while groups come and go: no group
// with a majority is ever left without a leader. QUORATE_STRESS_FAILOVERS and
// QUORATE_STRESS_SEED set how long and which.
func TestStress(t *testing.T) {
	t.Parallel()
	failovers, seed := stressFailovers(t)
	s := &stress{nodes: startNodes(t, true), random: rand.New(rand.NewPCG(seed, 0)), next: firstGroup}
	for _, n := range s.all {
		n.misses = stressMisses
		s.names = append(s.names, n.id)
	}
	s.create(20)
	s.settled("first elections", s.all)
	faults := []struct {
		name string
		do   func(*node)
	}{
		{"killed", s.killed},
		{"frozen", s.frozen},
		{"cannot speak", s.cannotSpeak},
		{"cannot hear", s.cannotHear},
		{"a pair is cut", s.pairCut},
		{"disk hangs", s.diskHangs},
		{"leaders step down", s.stepDown},
		{"all stand", s.clash},
		{"members reopen", s.reopen},
		{"new groups, then killed", s.newThenKilled},
		{"blinks", s.blinks},
	}
	rounds := map[string]int{}
	for s.failovers < failovers {
		f := faults[s.random.IntN(len(faults))]
		rounds[f.name]++
		begin, before := time.Now(), s.terms()
		victim := s.all[s.random.IntN(len(s.all))]
		f.do(victim)
		s.settled(f.name+", after it", s.all)
		changed := 0
		for g, term := range s.terms() {
			if before[g] != 0 && term != before[g] {
				changed++
			}
		}
		s.failovers += changed
		if testing.Verbose() {
			t.Logf("%s: %s: %d leaders changed, %v", victim.id, f.name, changed, time.Since(begin).Round(time.Millisecond))
		}
	}
	s.late.Wait()
	t.Logf("seed %d: %d changes of leaders, %v; the slowest group took %v", seed, s.failovers, rounds, s.slowest)
}

func (s *stress) groups() []id.GroupID {
	var all []id.GroupID
	for g := id.GroupID(firstGroup); g < s.next; g++ {
		all = append(all, g)
	}
	return all
}

func (s *stress) terms() map[id.GroupID]uint64 {
	terms := map[id.GroupID]uint64{}
	for _, g := range s.groups() {
		for _, n := range s.all {
			if m := n.group(g); m != nil {
				_, term := m.Leader()
				terms[g] = max(terms[g], term)
			}
		}
	}
	return terms
}

// create makes groups as a cluster does: one member writes the first configuration and
// stands, the others open at some time and wait for it, but not for ever.
func (s *stress) create(count int) {
	for range count {
		g, first := s.next, s.random.IntN(len(s.all))
		s.next++
		for i := range s.all {
			n := s.all[(first+i)%len(s.all)]
			if i == 0 {
				n.open(g, s.names...)
				continue
			}
			delay := time.Duration(s.random.IntN(3)*s.random.IntN(150)) * time.Millisecond
			s.late.Go(func() { time.Sleep(delay); s.openLate(n, g) })
		}
		m := s.all[first].group(g)
		delay := time.Duration(s.random.IntN(100)) * time.Millisecond
		s.late.Go(func() { time.Sleep(delay); _ = m.Campaign(context.Background()) })
	}
}

// openLate opens a member that has no configuration yet, unless its node was killed.
func (s *stress) openLate(n *node, g id.GroupID) {
	if !n.tryOpen(g) {
		return
	}
	m := n.group(g)
	s.late.Go(func() {
		time.Sleep(stressGrace)
		if m.Stats().LastIndex == 0 {
			_ = m.Bootstrap(s.names)
		}
	})
}

func (s *stress) pause(from, to time.Duration) {
	time.Sleep(from + time.Duration(s.random.Int64N(int64(to-from))))
}

func (s *stress) killed(v *node) {
	v.kill()
	s.settled("killed", s.others(v))
	s.restart(v)
}

// restart starts a killed node again with what it stored.
func (s *stress) restart(v *node) {
	again := startNode(s.t, v.id, v.epoch+1, v.dir, v.stores)
	again.misses = stressMisses
	s.all[slices.Index(s.all, v)] = again
	for _, n := range s.others(again) {
		s.relays[[2]id.NodeID{n.id, again.id}].moved(again.address)
		again.mux.SetPeer(n.id, s.relays[[2]id.NodeID{again.id, n.id}].address)
	}
	for _, g := range s.groups() {
		s.openLate(again, g)
	}
}

func (s *stress) cut(what string, v *node, says, hears bool) {
	s.hold(v, says, hears, true)
	s.pause(time.Millisecond, 1500*time.Millisecond)
	s.settled(what, s.others(v))
	s.hold(v, says, hears, false)
}

func (s *stress) frozen(v *node)      { s.cut("frozen", v, true, true) }
func (s *stress) cannotSpeak(v *node) { s.cut("cannot speak", v, true, false) }
func (s *stress) cannotHear(v *node)  { s.cut("cannot hear", v, false, true) }

// blinks is a node that is cut off for about as long as it takes to notice.
func (s *stress) blinks(v *node) {
	for range 1 + s.random.IntN(3) {
		s.hold(v, true, true, true)
		s.pause(200*time.Millisecond, 900*time.Millisecond)
		s.hold(v, true, true, false)
		s.pause(time.Millisecond, 500*time.Millisecond)
	}
}

// pairCut lets two nodes not reach each other while both reach the third.
func (s *stress) pairCut(v *node) {
	o := s.others(v)[s.random.IntN(2)]
	hold := func(held bool) {
		for _, pair := range [][2]id.NodeID{{v.id, o.id}, {o.id, v.id}} {
			s.relays[pair].hold(toward, held)
			s.relays[pair].hold(back, held)
		}
	}
	hold(true)
	s.pause(500*time.Millisecond, 2*time.Second)
	hold(false)
}

func (s *stress) diskHangs(v *node) {
	v.disk.freeze(true)
	s.pause(100*time.Millisecond, 2500*time.Millisecond)
	v.disk.freeze(false)
}

func (s *stress) each(do func(g id.GroupID, n *node, m *group)) {
	var all sync.WaitGroup
	for _, g := range s.groups() {
		if s.random.IntN(2) == 0 {
			continue
		}
		for _, n := range s.all {
			if m := n.group(g); m != nil {
				all.Go(func() { do(g, n, m) })
			}
		}
	}
	all.Wait()
}

func (s *stress) stepDown(*node) {
	s.each(func(_ id.GroupID, _ *node, m *group) { _ = m.StepDown(context.Background(), 0) })
}

func (s *stress) clash(*node) {
	s.each(func(_ id.GroupID, _ *node, m *group) { _ = m.Campaign(context.Background()) })
}

func (s *stress) reopen(v *node) {
	s.each(func(g id.GroupID, n *node, m *group) {
		if n == v {
			n.closeGroup(g)
			s.openLate(n, g)
		}
	})
}

// newThenKilled kills a node while groups begin.
func (s *stress) newThenKilled(v *node) {
	if s.next-firstGroup < 60 {
		s.create(5)
	}
	s.pause(time.Millisecond, 300*time.Millisecond)
	v.kill()
	s.settled("killed early", s.others(v))
	s.restart(v)
}

// settled waits until every group has a leader among the nodes that commits and that all
// of them follow.
func (s *stress) settled(what string, among []*node) {
	s.t.Helper()
	begin := time.Now()
	var mu sync.Mutex
	var failed []id.GroupID
	var all sync.WaitGroup
	for _, g := range s.groups() {
		all.Go(func() {
			ok := s.commits(g, among, begin.Add(stressBound))
			took := time.Since(begin)
			mu.Lock()
			defer mu.Unlock()
			s.slowest = max(s.slowest, took)
			if !ok {
				failed = append(failed, g)
			}
			if ok && took > stressBound/4 {
				s.t.Logf("%s: group %s took %v", what, g, took)
			}
		})
	}
	all.Wait()
	if len(failed) == 0 {
		return
	}
	for _, g := range failed[:min(3, len(failed))] {
		for _, n := range s.all {
			m := n.group(g)
			if m == nil {
				s.t.Logf("%s: group %s: no member", n.id, g)
				continue
			}
			s.t.Logf("%s: group %s: %+v, leading %v, failed %v; %s; %+v",
				n.id, g, m.Stats(), m.Leading(), m.Failed(), n.manager.Explain(g), n.manager.Stats())
		}
	}
	s.t.Fatalf("%s: %d of %d groups had no leader that commits and is followed within %v", what, len(failed), s.next-firstGroup, stressBound)
}

func (s *stress) commits(g id.GroupID, among []*node, end time.Time) bool {
	committed := false
	for time.Now().Before(end) {
		l := leader(g, among...)
		if l != nil && !committed {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := l.group(g).Propose(ctx, command())
			cancel()
			committed = err == nil
		}
		if l != nil && committed && s.followed(g, l, among) {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

func (s *stress) followed(g id.GroupID, l *node, among []*node) bool {
	at := uint64(0)
	if m := l.group(g); m != nil {
		at = m.Stats().AppliedIndex
	}
	for _, n := range among {
		m := n.group(g)
		if m == nil {
			return false
		}
		if who, _ := m.Leader(); who != l.id || m.Stats().AppliedIndex < at {
			return false
		}
	}
	return true
}
