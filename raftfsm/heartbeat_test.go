package raftfsm

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// heldStorage is a storage in which chosen writes wait until they are released.
type heldStorage struct {
	Storage
	mu      sync.Mutex
	terms   map[uint64]chan struct{}
	entries map[uint64]chan struct{}
}

func (s *heldStorage) IsMonotonic() bool { return true }

// holdTerm and holdEntry make the write wait; the caller releases it by closing the channel.
func (s *heldStorage) holdTerm(term uint64) chan struct{}   { return s.hold(&s.terms, term) }
func (s *heldStorage) holdEntry(index uint64) chan struct{} { return s.hold(&s.entries, index) }

func (s *heldStorage) hold(which *map[uint64]chan struct{}, n uint64) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *which == nil {
		*which = map[uint64]chan struct{}{}
	}
	c := make(chan struct{})
	(*which)[n] = c
	return c
}

func (s *heldStorage) await(which *map[uint64]chan struct{}, n uint64) {
	s.mu.Lock()
	c := (*which)[n]
	s.mu.Unlock()
	if c != nil {
		<-c
	}
}

func (s *heldStorage) SetUint64(key []byte, v uint64) error {
	if string(key) == keyTerm {
		s.await(&s.terms, v)
	}
	return s.Storage.SetUint64(key, v)
}

func (s *heldStorage) StoreLogs(logs []*raft.Log) error {
	s.await(&s.entries, logs[0].Index)
	return s.Storage.StoreLogs(logs)
}

// newHeld is the first of three members without timers, none of which leads.
func newHeld(t *testing.T) (*logMember, *heldStorage) {
	t.Helper()
	held := &heldStorage{}
	all := newLogCluster(t, 3, func(c *Config[reply, string]) {
		c.Driven = true
		if c.Node == "n1" {
			held.Storage = c.Storage
			c.Storage = held
		}
	})
	return all[0], held
}

func headerOf(n id.NodeID) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n), Addr: []byte(n)}
}

// hear has the member hear a heartbeat of a leader, as its transport does; the answer comes in the channel.
func (m *logMember) hear(leader id.NodeID, term uint64) <-chan raft.RPCResponse {
	answers := make(chan raft.RPCResponse, 1)
	call := &raft.AppendEntriesRequest{RPCHeader: headerOf(leader), Term: term}
	go func() { (*m.transport.handler.Load())(raft.RPC{Command: call, RespChan: answers}) }()
	synctest.Wait()
	return answers
}

// calls hands raft's main goroutine a call; the answer comes in the channel.
func (m *logMember) calls(t *testing.T, command any) <-chan any {
	answers := make(chan any, 1)
	go func() {
		answer, err := m.transport.Inject(t.Context(), command)
		if err != nil {
			answer = err
		}
		answers <- answer
	}()
	synctest.Wait()
	return answers
}

// While raft stores the term in which it votes, a heartbeat of an older leader does not set it back: the member would vote
// for itself in the term in which it has voted.
func TestHeartbeatOfAnOlderTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, disk := newHeld(t)
		newer, older := disk.holdTerm(7), disk.holdTerm(6)
		voted := m.calls(t, &raft.RequestVoteRequest{RPCHeader: headerOf("n2"), Term: 7, LastLogIndex: 9, LastLogTerm: 6})
		heard := m.hear("n3", 6)
		close(newer)
		if v, is := (<-voted).(*raft.RequestVoteResponse); !is || !v.Granted {
			t.Fatalf("the vote: %+v", v)
		}
		close(older)
		answer := <-heard
		if a, is := answer.Response.(*raft.AppendEntriesResponse); !is || a.Success || a.Term != 7 {
			t.Errorf("the heartbeat of term 6 is answered with %+v, %v", a, answer.Error)
		}
		if term := m.group.Progress().Term; term != 7 {
			t.Errorf("the member is in term %d after it has voted in term 7", term)
		}
		if err := m.group.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, "it leads", m.group.Leading)
		if term := m.group.Progress().Term; term <= 7 {
			t.Errorf("it leads in term %d, in which it has voted for another", term)
		}
	})
}

// A follower answers its leader's heartbeats while its disk hangs. One that changes something waits for raft.
func TestHeartbeatsPassTheDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, disk := newHeld(t)
		answered := func(what string, from <-chan raft.RPCResponse, term uint64) {
			t.Helper()
			synctest.Wait()
			select {
			case r := <-from:
				if a, is := r.Response.(*raft.AppendEntriesResponse); !is || !a.Success || a.Term != term || a.LastLog == 0 {
					t.Errorf("%s: %+v, %v", what, a, r.Error)
				}
			default:
				t.Errorf("%s: no answer", what)
			}
		}
		answered("the first", m.hear("n2", 7), 7)
		if leader, _ := m.group.Leader(); leader != "n2" {
			t.Errorf("it follows %q", leader)
		}
		release := disk.holdEntry(2)
		stored := m.calls(t, &raft.AppendEntriesRequest{
			RPCHeader: headerOf("n2"), Term: 7, PrevLogEntry: 1, PrevLogTerm: 1,
			Entries: []*raft.Log{{Index: 2, Term: 7, Type: raft.LogNoop}},
		})
		answered("while the disk hangs", m.hear("n2", 7), 7)
		newer := m.hear("n3", 8)
		if len(newer) > 0 {
			t.Errorf("a newer leader's is answered beside raft: %+v", <-newer)
		}
		close(release)
		if a, is := (<-stored).(*raft.AppendEntriesResponse); !is || !a.Success {
			t.Errorf("the entry: %+v", a)
		}
		answered("the newer leader's", newer, 8)
		if leader, term := m.group.Leader(); leader != "n3" || term != 8 {
			t.Errorf("it follows %q in term %d", leader, term)
		}
	})
}
