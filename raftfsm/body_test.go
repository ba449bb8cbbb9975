package raftfsm

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal"
)

// countedReads counts how bodies are read from a log.
type countedReads struct {
	logOfOne
	single, ahead atomic.Int64
}

func (s *countedReads) Entry(index uint64, out *raft.Log) error {
	s.single.Add(1)
	return s.logOfOne.Entry(index, out)
}

func (s *countedReads) Ahead(after, last uint64) []raft.Log {
	s.ahead.Add(1)
	return s.logOfOne.Ahead(after, last)
}

// reads returns the calls since the last one.
func (s *countedReads) reads() (single, ahead int64) { return s.single.Swap(0), s.ahead.Swap(0) }

// forget empties what is in memory of entries and bodies.
func forget(l *wal.Log, c *BodyCache) {
	for range 2 {
		l.AgeTail()
		c.Age()
	}
}

// Bodies that have waited for long are not in memory. In the order of the log few reads bring them back, with those of
// other entries between them; in another order each is read by itself.
func TestBodiesAreReadAhead(t *testing.T) {
	t.Parallel()
	s := &countedReads{}
	c := newCluster(t, 1, func(_ *member, cfg *Config[reply, string]) {
		s.logOfOne, _ = cfg.Storage.(logOfOne)
		cfg.Storage = s
	})
	const n = 200
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint("body ", i))
		c.propose(fmt.Sprint("message ", i), want[i])
		if i%10 == 0 {
			c.propose(fmt.Sprint("settled ", i))
		}
	}
	m := c.leader()
	refs := m.refs()
	read := func() {
		t.Helper()
		for i, ref := range refs {
			if b, err := m.group.Body(ref); err != nil || string(b) != want[i] {
				t.Fatalf("body %+v is %q, %v: want %q", ref, b, err, want[i])
			}
		}
	}
	s.reads()
	read()
	if single, ahead := s.reads(); single != 0 || ahead != 0 {
		t.Fatalf("%d and %d reads of new bodies", single, ahead)
	}
	forget(s.log, m.group.bodies.cache)
	read()
	if single, ahead := s.reads(); single == 0 || single > 5 || ahead > single {
		t.Errorf("%d reads, and %d ahead, of %d bodies in order", single, ahead, n)
	}
	forget(s.log, m.group.bodies.cache)
	slices.Reverse(refs)
	slices.Reverse(want)
	read()
	if single, ahead := s.reads(); single != n || ahead != 0 {
		t.Errorf("%d reads, and %d ahead, of %d bodies against the order", single, ahead, n)
	}
}

// What was read ahead in vain, because there was no room for it, is not read ahead again.
func TestBodiesAreReadAheadOnce(t *testing.T) {
	t.Parallel()
	s := &countedReads{}
	c := newCluster(t, 1, func(_ *member, cfg *Config[reply, string]) {
		s.logOfOne, _ = cfg.Storage.(logOfOne)
		cfg.Storage, cfg.BodyCache = s, NewBodyCache(1)
	})
	const n = 200
	for i := range n {
		c.propose(fmt.Sprint("message ", i), "body")
	}
	m := c.leader()
	forget(s.log, m.group.bodies.cache)
	for range 2 {
		s.reads()
		if got := m.readable(t); got != n {
			t.Fatalf("%d bodies", got)
		}
		if single, ahead := s.reads(); single != n || ahead == 0 || ahead > 2 {
			t.Errorf("%d reads of %d bodies, and %d ahead", single, n, ahead)
		}
	}
}

// A group that stops reads nothing ahead, and keeps what it reads for its export only: other groups' bodies stay.
func TestBodiesOfAStoppedGroup(t *testing.T) {
	t.Parallel()
	s, cache := &countedReads{}, NewBodyCache(1<<20)
	c := newCluster(t, 1, func(_ *member, cfg *Config[reply, string]) {
		s.logOfOne, _ = cfg.Storage.(logOfOne)
		cfg.Storage, cfg.BodyCache = s, cache
	})
	const n = 100
	c.propose("message", slices.Repeat([]string{"body"}, n)...)
	m := c.leader()
	refs := m.refs()
	x, err := m.group.Export(t.Context(), m.group.Stats().AppliedIndex)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	m.group.fail(errors.New("of this test"))
	forget(s.log, cache)
	others := cacheKey{m.group.c.Group + 1, 1}
	cache.add(others, &bodySet{})
	s.reads()
	for _, ref := range refs {
		if _, err := m.group.Body(ref); err != nil {
			t.Fatal(err)
		}
	}
	if _, ahead := s.reads(); ahead != 0 || cache.Stats().Entries != 1 || cache.get(others) == nil {
		t.Errorf("%d reads ahead, the cache has %+v", ahead, cache.Stats())
	}
	for _, ref := range refs {
		if _, err := x.Body(ref); err != nil {
			t.Fatal(err)
		}
	}
	if single, _ := s.reads(); len(refs) != n || single != 1 {
		t.Errorf("%d reads of an entry with %d bodies", single, len(refs))
	}
}

// A leader keeps the bodies of new entries only while its readers are soon to come to them.
func TestBodiesOfADeepQueueAreNotKept(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	c.propose("before", "body 0")
	m := c.leader()
	hold := func(bytes uint64) { m.group.Read(func() { m.machine.held = bytes }) }
	kept := func() int64 { return m.group.bodies.cache.Stats().Entries }
	before := kept()
	hold(soonBytes)
	c.propose("soon", "body 1")
	if n := kept(); n != before+1 {
		t.Errorf("%d entries are kept, want one more than %d", n, before)
	}
	hold(soonBytes + 1)
	c.propose("late", "body 2")
	if n := kept(); n != before+1 {
		t.Errorf("%d entries are kept, want %d as before", n, before+1)
	}
	if n := m.readable(t); n != 3 {
		t.Errorf("%d bodies", n)
	}
}

// heldRead lets a read of one entry wait after it has read.
type heldRead struct {
	logOfOne
	held  atomic.Bool
	began chan struct{}
	ends  chan struct{}
}

func (s *heldRead) Entry(index uint64, out *raft.Log) error {
	err := s.logOfOne.Entry(index, out)
	if s.held.Swap(false) {
		close(s.began)
		<-s.ends
	}
	return err
}

// A body that is read while its group is closed is not kept: another member of the same name may have another one.
func TestBodiesOfAClosedGroupAreNotKept(t *testing.T) {
	t.Parallel()
	s := &heldRead{began: make(chan struct{}), ends: make(chan struct{})}
	cache := NewBodyCache(1 << 20)
	c := newCluster(t, 1, func(_ *member, cfg *Config[reply, string]) {
		s.logOfOne, _ = cfg.Storage.(logOfOne)
		cfg.Storage, cfg.BodyCache = s, cache
	})
	c.propose("message", "body")
	m := c.leader()
	ref := m.refs()[0]
	forget(s.log, cache)
	s.held.Store(true)
	var read sync.WaitGroup
	read.Go(func() { _, _ = m.group.Body(ref) })
	<-s.began
	if err := m.group.Close(); err != nil {
		t.Error(err)
	}
	close(s.ends)
	read.Wait()
	if n := cache.Stats().Entries; n != 0 {
		t.Errorf("%d entries are kept", n)
	}
}
