package raftfsm

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// plain is a machine of raft's own kind. Apply waits while somebody has the turn.
type plain struct {
	turn    chan struct{} // one, unless it is taken
	mu      sync.Mutex
	applied []string
}

func newPlain() *plain {
	p := &plain{turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	return p
}

func (p *plain) Apply(l *raft.Log) any {
	<-p.turn
	p.turn <- struct{}{}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applied = append(p.applied, string(l.Data))
	return nil
}
func (p *plain) Snapshot() (raft.FSMSnapshot, error) { return p, nil }
func (p *plain) Persist(s raft.SnapshotSink) error   { return s.Close() }
func (p *plain) Release()                            {}
func (p *plain) Restore(r io.ReadCloser) error       { return r.Close() }

func (p *plain) has(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.applied, text)
}

// trapNode is a member that only the library runs.
type trapNode struct {
	id        raft.ServerID
	raft      *raft.Raft
	machine   *plain
	logs      *trapLogs
	stable    *trapStable
	transport *trapTransport
	snapshots *raft.InmemSnapshotStore
}

// trapLogs is a log whose writes can be made to hang, and that may be monotonic.
type trapLogs struct {
	*raft.InmemStore
	monotonic bool
	hang      chan struct{} // not nil: writes wait until it is closed
	deleted   [][2]uint64
}

func (l *trapLogs) IsMonotonic() bool { return l.monotonic }

func (l *trapLogs) StoreLogs(logs []*raft.Log) error {
	if l.hang != nil {
		<-l.hang
	}
	return l.InmemStore.StoreLogs(logs)
}
func (l *trapLogs) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

func (l *trapLogs) DeleteRange(from, to uint64) error {
	l.deleted = append(l.deleted, [2]uint64{from, to})
	return l.InmemStore.DeleteRange(from, to)
}

// trapStable records what is written.
type trapStable struct {
	*raft.InmemStore
	mu     sync.Mutex
	writes []string
}

func (s *trapStable) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, fmt.Sprintf(format, args...))
}

func (s *trapStable) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writes
	s.writes = nil
	return w
}

func (s *trapStable) Set(k, v []byte) error {
	s.note("%s=%s", k, v)
	return s.InmemStore.Set(k, v)
}

func (s *trapStable) SetUint64(k []byte, v uint64) error {
	s.note("%s=%d", k, v)
	return s.InmemStore.SetUint64(k, v)
}

// trapTransport may lose all answers on pipelines.
type trapTransport struct {
	*raft.InmemTransport
	lose bool // answers are lost
}

func (t *trapTransport) AppendEntriesPipeline(id raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.InmemTransport.AppendEntriesPipeline(id, to)
	if err != nil || !t.lose {
		return p, err
	}
	d := &deafPipeline{p, make(chan raft.AppendFuture), make(chan struct{})}
	go d.drop()
	return d, nil
}

// deafPipeline sends, and hears nothing.
type deafPipeline struct {
	raft.AppendPipeline
	never  chan raft.AppendFuture
	closed chan struct{}
}

func (p *deafPipeline) drop() {
	for {
		select {
		case <-p.AppendPipeline.Consumer():
		case <-p.closed:
			return
		}
	}
}

func (p *deafPipeline) Close() error {
	close(p.closed)
	return p.AppendPipeline.Close()
}

func (p *deafPipeline) Consumer() <-chan raft.AppendFuture { return p.never }

func (n *trapNode) config() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = n.id, newRaftLogger(Config[reply, string]{}.withDefaults().Logger)
	return c
}

func (n *trapNode) start(t *testing.T, c *raft.Config) {
	t.Helper()
	var err error
	if n.raft, err = raft.NewRaft(c, n.machine, n.logs, n.stable, n.snapshots, n.transport); err != nil {
		t.Fatal(err)
	}
}

// trapNodes are members that know one another; the caller's function changes each before
// it starts.
func trapNodes(t *testing.T, count int, change func(i int, n *trapNode, c *raft.Config)) []*trapNode {
	t.Helper()
	var all []*trapNode
	var servers raft.Configuration
	for i := range count {
		name := fmt.Sprintf("n%d", i+1)
		_, inner := raft.NewInmemTransport(raft.ServerAddress(name))
		n := &trapNode{
			id: raft.ServerID(name), machine: newPlain(), transport: &trapTransport{InmemTransport: inner},
			logs:   &trapLogs{InmemStore: raft.NewInmemStore()},
			stable: &trapStable{InmemStore: raft.NewInmemStore()}, snapshots: raft.NewInmemSnapshotStore(),
		}
		all = append(all, n)
		servers.Servers = append(servers.Servers, raft.Server{ID: n.id, Address: raft.ServerAddress(name)})
	}
	join(all...)
	for i, n := range all {
		c := n.config()
		if change != nil {
			change(i, n, c)
		}
		if err := raft.BootstrapCluster(c, n.logs, n.stable, n.snapshots, n.transport, servers); err != nil {
			t.Fatal(err)
		}
		n.start(t, c)
	}
	return all
}

func join(all ...*trapNode) {
	for _, a := range all {
		for _, b := range all {
			if a != b {
				a.transport.Connect(b.transport.LocalAddr(), b.transport.InmemTransport)
			}
		}
	}
}

func isolate(n *trapNode, all ...*trapNode) {
	n.transport.DisconnectAll()
	for _, o := range all {
		o.transport.Disconnect(n.transport.LocalAddr())
	}
}

func stop(all ...*trapNode) {
	var done []raft.Future
	for _, n := range all {
		done = append(done, n.raft.Shutdown())
	}
	for _, d := range done {
		_ = d.Error() // it is always nil
	}
}

// trapLeader waits for one, on whatever clock runs.
func trapLeader(t *testing.T, all ...*trapNode) *trapNode {
	t.Helper()
	for range 10_000 {
		for _, n := range all {
			if n.raft.State() == raft.Leader && n.raft.VerifyLeader().Error() == nil {
				return n
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("there is no leader")
	return nil
}

// outsider is a way to call members that belongs to none of them.
func outsider(all ...*trapNode) *raft.InmemTransport {
	_, t := raft.NewInmemTransport("outsider")
	for _, n := range all {
		t.Connect(n.transport.LocalAddr(), n.transport.InmemTransport)
	}
	return t
}

func trapHeader(from raft.ServerID) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(from), Addr: []byte(from)}
}

// longTimers are those of driven groups.
func longTimers(_ int, _ *trapNode, c *raft.Config) {
	c.HeartbeatTimeout, c.ElectionTimeout = drivenTimeout, drivenTimeout
	c.LeaderLeaseTimeout, c.CommitTimeout = drivenTimeout/2, drivenCommitTimeout
}

// followers returns all but one.
func followers(leader *trapNode, all []*trapNode) []*trapNode {
	return slices.DeleteFunc(slices.Clone(all), func(n *trapNode) bool { return n == leader })
}
