package wal_test

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// counter is a machine that counts commands; raft and the test use it at a time.
type counter struct {
	mu sync.Mutex
	v  counted
}

type counted struct{ n, sum uint64 }

func (c *counter) value() counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.v
}

func (c *counter) Apply(e *raft.Log) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.v.n++
	c.v.sum = c.v.sum*31 + uint64(len(e.Data)) + e.Index
	return nil
}

func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return counterSnapshot(c.value()), nil }

func (c *counter) Restore(r io.ReadCloser) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := fmt.Fscan(r, &c.v.n, &c.v.sum)
	return err
}

type counterSnapshot counted

func (s counterSnapshot) Persist(to raft.SnapshotSink) error {
	_, err := fmt.Fprintln(to, s.n, s.sum)
	if err != nil {
		return err
	}
	return to.Close()
}

func (counterSnapshot) Release() {}

// node is one of three, with all groups' members on one log.
type node struct {
	name  raft.ServerID
	disk  *vfs.Mem
	log   *wal.Log
	rafts []*raft.Raft
	fsms  []*counter
	wires []*raft.InmemTransport
	snaps []*raft.InmemSnapshotStore
}

const raftGroups = 3

func (n *node) start(t *testing.T, all []*node) {
	t.Helper()
	n.wires = nil // raft has closed the older ones
	for i := range raftGroups {
		_, wire := raft.NewInmemTransport(raft.ServerAddress(n.name))
		n.wires = append(n.wires, wire)
		for _, o := range all {
			if o != n && i < len(o.wires) {
				o.wires[i].Connect(wire.LocalAddr(), wire)
				wire.Connect(o.wires[i].LocalAddr(), o.wires[i])
			}
		}
	}
	l, err := wal.Open(n.disk, wal.Config{SegmentBytes: 1 << 16, SpaceInterval: -1, LowBytes: -1, FloorBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	n.log, n.rafts, n.fsms = l, nil, nil
	for i := range raftGroups {
		g, err := l.Group(id.GroupID(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		c := raft.DefaultConfig()
		c.LocalID = n.name
		c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 500*time.Millisecond, 500*time.Millisecond, 400*time.Millisecond
		c.TrailingLogs, c.SnapshotThreshold = 20, 1<<20
		c.Logger = hclog.NewNullLogger()
		fsm := &counter{}
		r, err := raft.NewRaft(c, fsm, g, g, n.snaps[i], n.wires[i])
		if err != nil {
			t.Fatal(err)
		}
		n.rafts, n.fsms = append(n.rafts, r), append(n.fsms, fsm)
	}
}

func (n *node) stop(t *testing.T) {
	t.Helper()
	for _, r := range n.rafts {
		if err := r.Shutdown().Error(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.log.Close(); err != nil {
		t.Fatal(err)
	}
}

// until polls a condition.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after a minute", what)
		}
	}
}

// The pinned Raft library runs on the log: groups elect, commit, take snapshots, restart,
// and bring back a member that has missed everything by a snapshot.
func TestRaftRunsOnIt(t *testing.T) {
	var nodes []*node
	var servers []raft.Server
	for i := range 3 {
		n := &node{name: raft.ServerID(fmt.Sprintf("n%d", i)), disk: vfs.NewMem()}
		for range raftGroups {
			n.snaps = append(n.snaps, raft.NewInmemSnapshotStore())
		}
		nodes = append(nodes, n)
		servers = append(servers, raft.Server{ID: n.name, Address: raft.ServerAddress(n.name)})
	}
	for _, n := range nodes {
		n.start(t, nodes)
	}
	for _, n := range nodes {
		for _, r := range n.rafts {
			if err := r.BootstrapCluster(raft.Configuration{Servers: servers}).Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	leader := func(group int, of []*node) *raft.Raft {
		var found *raft.Raft
		until(t, "a leader", func() bool {
			for _, n := range of {
				if n.rafts[group].State() == raft.Leader {
					found = n.rafts[group]
				}
			}
			return found != nil
		})
		return found
	}
	apply := func(of []*node, count int) {
		for group := range raftGroups {
			for done := 0; done < count; {
				if leader(group, of).Apply(make([]byte, 100+done%900), time.Second).Error() == nil {
					done++
				}
			}
		}
	}
	equal := func(what string) {
		until(t, what, func() bool {
			for group := range raftGroups {
				for _, n := range nodes {
					if n.fsms[group].value() != nodes[0].fsms[group].value() ||
						n.rafts[group].AppliedIndex() != nodes[0].rafts[group].AppliedIndex() {
						return false
					}
				}
			}
			return true
		})
	}
	apply(nodes, 60)
	equal("first commands")
	nodes[2].stop(t)
	apply(nodes[:2], 60)
	for _, n := range nodes[:2] {
		for _, r := range n.rafts {
			if err := r.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
		}
	}
	nodes[2].start(t, nodes)
	apply(nodes, 20)
	equal("a member back by snapshot")
	for _, n := range nodes {
		n.stop(t)
	}
	for _, n := range nodes {
		n.start(t, nodes)
	}
	apply(nodes, 20)
	equal("all restarted")
	for _, n := range nodes {
		if lost := n.log.Lost(); len(lost) > 0 {
			t.Errorf("lost are %v", lost)
		}
		n.stop(t)
	}
}
