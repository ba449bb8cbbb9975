package wal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// model is what a group's log must look like, kept in the plainest way.
type model struct {
	exists      bool
	first, next uint64
	log         map[uint64]string // and what is left below it
	brought     map[uint64]string
	term        uint64
	voteTerm    uint64
	voteFor     string
}

func newModel() model {
	return model{first: 1, next: 1, log: map[uint64]string{}, brought: map[uint64]string{}}
}

func (m model) clone() model {
	m.log, m.brought = maps.Clone(m.log), maps.Clone(m.brought)
	return m
}

// maxIndex is above every index that tests use.
const maxIndex = 400

func (m model) String() string {
	var b strings.Builder
	if m.first == m.next {
		b.WriteString("log empty")
	} else {
		fmt.Fprintf(&b, "log %d..%d", m.first, m.next-1)
	}
	fmt.Fprintf(&b, " term %d vote %d %q:", m.term, m.voteTerm, m.voteFor)
	for i := uint64(1); i < maxIndex; i++ {
		v, ok := m.log[i]
		in := i >= m.first && i < m.next
		if w, is := m.brought[i]; is && in && w != v {
			v += "|" + w // GetLog's and Entry's
		} else if is {
			v, ok = w, true
		}
		if ok {
			fmt.Fprintf(&b, " %d=%s%s", i, short(v), m.covered(i))
		}
	}
	return b.String()
}

// covered marks an entry below the log that one which a snapshot brought hides: it shows
// again if that one is dropped.
func (m model) covered(i uint64) string {
	_, left := m.log[i]
	if _, brought := m.brought[i]; left && brought && (i < m.first || i >= m.next) {
		return "^"
	}
	return ""
}

func short(s string) string {
	s, brought, both := strings.Cut(s, "|")
	s, _, _ = strings.Cut(s, ".")
	if both {
		s += "|" + short(brought)
	}
	return s
}

// look reads a group in the form of a model.
func look(t *testing.T, g *GroupLog) string {
	t.Helper()
	m := newModel()
	first, err1 := g.FirstIndex()
	last, err2 := g.LastIndex()
	term, err3 := g.GetUint64([]byte(keyTerm))
	voteTerm, err4 := g.GetUint64([]byte(keyVoteTerm))
	voteFor, err5 := g.Get([]byte(keyVoteFor))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	m.term, m.voteTerm, m.voteFor = term, voteTerm, string(voteFor)
	if last != 0 {
		m.first, m.next = first, last+1
	} else {
		m.first, m.next = maxIndex, maxIndex
	}
	for i := uint64(1); i < maxIndex; i++ {
		var e, f raft.Log
		errLog, errEntry := g.GetLog(i, &e), g.Entry(i, &f)
		in := last != 0 && i >= first && i <= last
		if in != (errLog == nil) || !in && !errors.Is(errLog, raft.ErrLogNotFound) {
			t.Fatalf("GetLog(%d) of the log %d..%d: %v", i, first, last, errLog)
		}
		if errEntry != nil {
			if in || !errors.Is(errEntry, raft.ErrLogNotFound) {
				t.Fatalf("Entry(%d) of the log %d..%d: %v", i, first, last, errEntry)
			}
			continue
		}
		if f.Index != i || in && e.Index != i {
			t.Fatalf("entry %d is entry %d, %d: %q, %q", i, e.Index, f.Index, short(string(e.Data)), short(string(f.Data)))
		}
		m.log[i] = string(f.Data)
		switch {
		case in && string(e.Data) != string(f.Data):
			m.log[i], m.brought[i] = string(e.Data), string(f.Data)
		case !in && covered(g, i):
			m.brought[i] = string(f.Data)
		}
	}
	return m.String()
}

// covered reports whether a snapshot has brought an entry of which the log has left its own.
func covered(g *GroupLog, i uint64) bool {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	return g.ix.get(i).size != 0 && g.rt.get(i).size != 0
}

// op is an operation on a group, and what it does to the model: the states it goes
// through, which a crash may leave.
type op struct {
	name  string
	run   func(l *Log, g *GroupLog) error
	steps func(m model) []model
}

// durably runs an operation and waits until it survives a power cut.
func durably(o op, l *Log, g *GroupLog) error {
	if err := o.run(l, g); err != nil {
		return err
	}
	if err := g.Sync(); !errors.Is(err, ErrDeleted) {
		return err
	}
	return nil
}

// stored appends entries and waits until they survive a power cut.
func stored(t *testing.T, g *GroupLog, es []*raft.Log) {
	t.Helper()
	ok(t, g.StoreLogs(es))
	ok(t, g.Sync())
}

func content(index, term uint64, n int) string {
	s := fmt.Sprintf("i%dt%d.", index, term)
	return s + strings.Repeat("x", max(0, n-len(s)))
}

func entries(begin, term uint64, count, size int) []*raft.Log {
	var es []*raft.Log
	for i := begin; i < begin+uint64(count); i++ {
		es = append(es, &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: []byte(content(i, term, size))})
	}
	return es
}

func store(begin, term uint64, count, size int) op {
	return op{
		fmt.Sprintf("store %d+%d of term %d", begin, count, term),
		func(_ *Log, g *GroupLog) error { return g.StoreLogs(entries(begin, term, count, size)) },
		func(m model) []model {
			var steps []model
			if !m.exists {
				m.exists = true
				steps = append(steps, m.clone())
			}
			if begin > m.next || m.first == m.next && begin < m.next {
				m.first, m.next = begin, begin
			}
			m.next = begin
			maps.DeleteFunc(m.log, func(i uint64, _ string) bool { return i >= begin })
			steps = append(steps, m.clone())
			for _, e := range entries(begin, term, count, size) {
				m.log[e.Index] = string(e.Data)
				m.next++
				steps = append(steps, m.clone())
			}
			return steps
		},
	}
}

func remove(from, to uint64) op {
	return op{
		fmt.Sprintf("delete %d..%d", from, to),
		func(_ *Log, g *GroupLog) error { return g.DeleteRange(from, to) },
		func(m model) []model {
			switch {
			case m.first == m.next || from >= m.next || to < m.first:
			case from <= m.first:
				m.first = min(to, m.next-1) + 1
			case to >= m.next-1:
				m.next = from
				maps.DeleteFunc(m.log, func(i uint64, _ string) bool { return i >= from })
			}
			return []model{m}
		},
	}
}

func retain(live ...uint64) op { return retainUpTo(^uint64(0), live...) }

func retainUpTo(upTo uint64, live ...uint64) op {
	return op{
		fmt.Sprintf("retain %v up to %d", live, upTo),
		func(_ *Log, g *GroupLog) error { return g.Retain(upTo, singles(slices.Values(live))) },
		func(m model) []model {
			dead := func(i uint64, _ string) bool { return i <= upTo && !slices.Contains(live, i) }
			maps.DeleteFunc(m.brought, dead)
			maps.DeleteFunc(m.log, func(i uint64, s string) bool { return i < m.first && i <= upTo && (dead(i, s) || m.brought[i] != "") })
			return []model{m}
		},
	}
}

func dropBrought(above uint64) op {
	return op{
		fmt.Sprintf("drop what was brought above %d", above),
		func(_ *Log, g *GroupLog) error { return g.DropRetained(above) },
		func(m model) []model {
			maps.DeleteFunc(m.brought, func(i uint64, _ string) bool { return i > above })
			return []model{m}
		},
	}
}

func bring(term uint64, size int, indexes ...uint64) op {
	var es []*raft.Log
	for _, i := range indexes {
		es = append(es, entries(i, term, 1, size)...)
	}
	return op{
		fmt.Sprintf("bring %v", indexes),
		func(_ *Log, g *GroupLog) error { return g.StoreRetained(es) },
		func(m model) []model {
			m.exists = true
			steps := []model{m.clone()}
			for _, e := range es {
				m.brought[e.Index] = string(e.Data)
				steps = append(steps, m.clone())
			}
			return steps
		},
	}
}

func term(n uint64) op {
	return op{
		fmt.Sprintf("term %d", n),
		func(_ *Log, g *GroupLog) error { return g.SetUint64([]byte(keyTerm), n) },
		func(m model) []model {
			m.exists = m.exists || n != m.term
			m.term = n
			return []model{m}
		},
	}
}

func vote(n uint64, whom string) op {
	return op{
		fmt.Sprintf("vote %d %s", n, whom),
		func(_ *Log, g *GroupLog) error {
			return errors.Join(g.SetUint64([]byte(keyVoteTerm), n), g.Set([]byte(keyVoteFor), []byte(whom)))
		},
		func(m model) []model {
			m.exists = true
			m.voteTerm, m.voteFor = n, whom
			return []model{m}
		},
	}
}

func deleteGroup() op {
	return op{
		"delete the group",
		func(l *Log, g *GroupLog) error { return l.Delete(g.id) },
		func(model) []model { return []model{newModel()} },
	}
}

func tidy() op {
	return op{
		"tidy",
		func(l *Log, _ *GroupLog) error { rollerIdle(l); return l.tidy() },
		func(m model) []model { return []model{m} },
	}
}

// testConfig makes segments small and compaction a matter of the test.
func testConfig() Config {
	return Config{
		SegmentBytes: 4096, TailBytes: 2000, SpaceInterval: -1, LowBytes: -1, FloorBytes: -1, manual: true, markAfter: time.Hour,
		sharedBytes: 100,
	}
}

func open(t *testing.T, dir vfs.Dir, c Config) *Log {
	t.Helper()
	l, err := Open(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func groupOf(t *testing.T, l *Log, group id.GroupID) *GroupLog {
	t.Helper()
	g, err := l.Group(group)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
