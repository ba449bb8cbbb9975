package wal

import (
	"slices"

	"github.com/quorate/quorate/id"
)

// Group returns the log of a group, which the first write creates. It returns the same value until
// the group is deleted.
func (l *Log) Group(group id.GroupID) (*GroupLog, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	return l.group(group), nil
}

// group returns the group's part of the log, an empty one if it is new; l.mu is held.
func (l *Log) group(group id.GroupID) *GroupLog {
	g := l.groups[group]
	if g == nil {
		g = &GroupLog{l: l, id: group, st: state{first: 1, next: 1}}
		l.groups[group] = g
	}
	return g
}

// Groups returns the groups that have records, ascending.
func (l *Log) Groups() []id.GroupID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []id.GroupID
	for group, g := range l.groups {
		if g.exists() {
			all = append(all, group)
		}
	}
	slices.Sort(all)
	return all
}

// Has reports whether a group has records.
func (l *Log) Has(group id.GroupID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[group]
	return g != nil && g.exists()
}

// Ends returns a group's current term and the index of its last entry, 0 if its log is empty,
// without opening the group. ok is false if the group has no records or has lost some.
func (l *Log) Ends(group id.GroupID) (term, last uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[group]
	if g == nil || !g.exists() || g.lost != nil {
		return 0, 0, false
	}
	if g.st.next > g.st.first {
		last = g.st.next - 1
	}
	return g.st.term, last, true
}

// LostGroup returns why a group has lost records, nil if it has not.
func (l *Log) LostGroup(group id.GroupID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.groups[group]; g != nil {
		return g.lost
	}
	return nil
}

// Lost returns the groups that have lost records, with the reason.
func (l *Log) Lost() map[id.GroupID]error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := map[id.GroupID]error{}
	for group, g := range l.groups {
		if g.lost != nil {
			lost[group] = g.lost
		}
	}
	return lost
}

// Delete deletes a group for good and returns when that is durable. A missing group is no error. If
// this node gets a member of the group again, that member starts empty.
func (l *Log) Delete(group id.GroupID) error {
	l.mu.Lock()
	if err := l.admit(); err != nil {
		l.mu.Unlock()
		return err
	}
	g := l.groups[group]
	if g == nil || !g.exists() {
		l.forget(g)
		l.mu.Unlock()
		return nil
	}
	l.drop(l.deleted[group])
	l.deleted[group] = l.put(&record{kind: KindDeleted, group: group})
	l.forget(g)
	b := l.cur
	l.mu.Unlock()
	l.work.Signal()
	<-b.done
	return b.err
}

// forget takes a group out of memory; its records are live no more.
func (l *Log) forget(g *GroupLog) {
	if g == nil {
		return
	}
	everything := span{0, ^uint64(0)}
	g.ix.remove(everything, always, l.drop)
	g.rt.remove(everything, always, l.drop)
	l.drop(g.at)
	for _, k := range g.keeps {
		l.drop(k.at)
	}
	g.tail.clear()
	g.at, g.keeps, g.gone = loc{}, nil, true
	delete(l.groups, g.id)
}
