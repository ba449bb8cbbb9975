package transport

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// absent holds Raft calls for groups that have no member here but will have one soon, by
// the word of Config.Absent: a new group that another node has opened first, or one that
// was closed while nobody used it. They are handed over when the group opens, or refused
// when that takes too long. Everything is guarded by the Mux's mu.
type absent struct {
	groups map[id.GroupID]*absentCalls
	calls  int
	bytes  int
	turned uint64 // calls refused: too many, or the group did not come
}

// absentCalls are the calls that wait for one group, oldest first.
type absentCalls struct {
	calls []inboundCall
	bytes int
	late  *time.Timer
}

// receive hands a call that came in to its group's member, or lets it wait for one. It
// never blocks.
func (m *Mux) receive(g id.GroupID, c inboundCall) {
	if m.silent(g) {
		c.stream.answer(c.request, nil, m.noPart(g))
		return
	}
	if member := m.group(g); member != nil {
		member.receive(c)
		return
	}
	if m.config.Absent == nil || !m.config.Absent(g) {
		c.stream.answer(c.request, nil, m.noGroup(g))
		return
	}
	m.mu.Lock()
	member, kept := m.groups[g], false
	if member == nil && !m.closed {
		kept = m.keep(g, c)
	}
	m.mu.Unlock()
	switch {
	case member != nil: // it opened meanwhile
		member.receive(c)
	case !kept:
		c.stream.answer(c.request, nil, fmt.Errorf("%w; too much waits for groups to open", m.noGroup(g)))
	}
}

// silent reports that a member here takes no part.
func (m *Mux) silent(g id.GroupID) bool { return m.config.Silent != nil && m.config.Silent(g) }

func (m *Mux) noPart(g id.GroupID) error {
	return fmt.Errorf("the member of group %s on node %q takes no part yet: it has nothing stored, and the catalog has not let it begin",
		g, m.config.Node)
}

// keep lets a call wait, if there is room. The caller holds mu.
func (m *Mux) keep(g id.GroupID, c inboundCall) bool {
	a, bytes := &m.absent, dataBytes(c.rpc)
	if a.calls >= m.config.MaxAbsentCalls || a.calls > 0 && a.bytes+bytes > m.config.MaxAbsentBytes {
		a.turned++
		return false
	}
	w := a.groups[g]
	if w == nil {
		if a.groups == nil {
			a.groups = map[id.GroupID]*absentCalls{}
		}
		w = &absentCalls{}
		w.late = time.AfterFunc(m.config.AbsentTimeout, func() { m.giveUp(g, w) })
		a.groups[g] = w
	}
	w.calls, w.bytes = append(w.calls, c), w.bytes+bytes
	a.calls, a.bytes = a.calls+1, a.bytes+bytes
	return true
}

// dataBytes is what a call holds in memory that may be much.
func dataBytes(rpc raft.WithRPCHeader) (n int) {
	if a, is := rpc.(*raft.AppendEntriesRequest); is {
		for _, e := range a.Entries {
			n += len(e.Data)
		}
	}
	return n
}

// giveUp refuses what waits for a group that has not opened in time.
func (m *Mux) giveUp(g id.GroupID, w *absentCalls) {
	m.mu.Lock()
	var calls []inboundCall
	if m.absent.groups[g] == w {
		calls = m.absent.take(g)
		m.absent.turned += uint64(len(calls))
	}
	m.mu.Unlock()
	for _, c := range calls {
		c.stream.answer(c.request, nil, m.noGroup(g))
	}
}

// take returns what waits for a group, oldest first.
func (a *absent) take(g id.GroupID) []inboundCall {
	w := a.groups[g]
	if w == nil {
		return nil
	}
	delete(a.groups, g)
	w.late.Stop()
	a.calls -= len(w.calls)
	a.bytes -= w.bytes
	return w.calls
}

// close lets go of everything: the streams end.
func (a *absent) close() {
	for g := range a.groups {
		a.take(g)
	}
}
