package transport

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
)

// groups are the Raft groups that have a member here, with the calls for those that will have one. mu
// guards what is below it.
type groups struct {
	l *local

	mu     sync.Mutex
	of     map[id.GroupID]*group
	absent absent
	closed bool
}

// open takes in a group. One that was opened before ends.
func (s *groups) open(n *group) {
	s.mu.Lock()
	old := s.of[n.id]
	closed := s.closed
	if !closed {
		s.of[n.id] = n
		for _, c := range s.absent.take(n.id) {
			n.receive(c) // before anything that arrives from now on
		}
	}
	s.mu.Unlock()
	if old != nil {
		old.stop()
	}
	if closed {
		n.stop()
	}
}

// close prevents further groups from opening.
func (s *groups) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// stop ends all groups; close was called.
func (s *groups) stop() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.of))
	s.absent.close()
	s.mu.Unlock()
	for _, g := range all {
		g.stop()
	}
}

// receive hands a call that came in to its group's member, or lets it wait for one. It
// never blocks.
func (s *groups) receive(g id.GroupID, c inboundCall) {
	if s.l.silent(g) {
		c.stream.answer(c.request, nil, s.l.noPart(g))
		return
	}
	if member := s.group(g); member != nil {
		member.receive(c)
		return
	}
	if s.l.config.Absent == nil || !s.l.config.Absent(g) {
		c.stream.answer(c.request, nil, s.l.noGroup(g))
		return
	}
	s.mu.Lock()
	member, kept := s.of[g], false
	if member == nil && !s.closed {
		kept = s.keep(g, c)
	}
	s.mu.Unlock()
	switch {
	case member != nil: // it opened meanwhile
		member.receive(c)
	case !kept:
		c.stream.answer(c.request, nil, fmt.Errorf("%w; too much waits for groups to open", s.l.noGroup(g)))
	}
}

// keep lets a call wait, if there is room. The caller holds mu.
func (s *groups) keep(g id.GroupID, c inboundCall) bool {
	a, bytes := &s.absent, dataBytes(c.rpc)
	if a.calls >= s.l.config.MaxAbsentCalls || a.calls > 0 && a.bytes+bytes > s.l.config.MaxAbsentBytes {
		a.turned++
		return false
	}
	w := a.groups[g]
	if w == nil {
		if a.groups == nil {
			a.groups = map[id.GroupID]*absentCalls{}
		}
		w = &absentCalls{}
		w.late = time.AfterFunc(s.l.config.AbsentTimeout, func() { s.giveUp(g, w) })
		a.groups[g] = w
	}
	w.calls, w.bytes = append(w.calls, c), w.bytes+bytes
	a.calls, a.bytes = a.calls+1, a.bytes+bytes
	return true
}

// giveUp refuses what waits for a group that has not opened in time.
func (s *groups) giveUp(g id.GroupID, w *absentCalls) {
	s.mu.Lock()
	var calls []inboundCall
	if s.absent.groups[g] == w {
		calls = s.absent.take(g)
		s.absent.turned += uint64(len(calls))
	}
	s.mu.Unlock()
	for _, c := range calls {
		c.stream.answer(c.request, nil, s.l.noGroup(g))
	}
}

// group returns nil for a group that has no member here.
func (s *groups) group(g id.GroupID) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[g]
}

// leave takes the group off, unless it was opened again meanwhile.
func (s *groups) leave(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[g.id] == g {
		delete(s.of, g.id)
	}
}

// waiting returns how many calls wait for groups to open here, and how many were refused so far.
func (s *groups) waiting() (calls int, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.absent.calls, s.absent.turned
}
