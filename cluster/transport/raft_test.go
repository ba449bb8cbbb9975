package transport

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

const testGroups = 20

// clusterOf starts three nodes with members of all groups.
func clusterOf(t *testing.T, groups int) ([]*node, [][]*member) {
	t.Helper()
	nodes := []*node{
		start(t, testConfig("n1", 1)),
		start(t, testConfig("n2", 1)),
		start(t, testConfig("n3", 1)),
	}
	meet(nodes...)
	members := make([][]*member, groups)
	for g := range members {
		for _, n := range nodes {
			members[g] = append(members[g], run(t, n, id.GroupID(1024+g), servers(nodes...), nil))
		}
	}
	return nodes, members
}

// propose applies entries on whoever leads, again until they are applied.
func propose(t *testing.T, members []*member, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		until(t, "the entry is applied", func() bool {
			return leader(t, members...).Apply([]byte(fmt.Sprintf("entry %d", i)), time.Second).Error() == nil
		})
	}
}

// equal waits until all members applied the same, ending in the given entry.
func equal(t *testing.T, last string, members ...*member) {
	t.Helper()
	until(t, "all members applied "+last, func() bool {
		want, _ := members[0].fsm.state()
		for _, m := range members {
			if sum, l := m.fsm.state(); sum != want || l != last {
				return false
			}
		}
		return true
	})
}

// Many groups of three share the connections: they elect, replicate, and go on when connections
// break and when a node comes back as a new incarnation at another address.
func TestGroupsOverConnections(t *testing.T) {
	nodes, members := clusterOf(t, testGroups)
	for _, ms := range members {
		propose(t, ms, 0, 5)
	}
	for _, ms := range members {
		equal(t, "entry 4", ms...)
	}

	for _, n := range nodes[1:] { // all connections that node 1 opened break
		pc, err := nodes[0].connection(n.config.Node)
		if err != nil {
			t.Fatal(err)
		}
		if err := pc.client.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, ms := range members {
		propose(t, ms, 5, 8)
		equal(t, "entry 7", ms...)
	}

	for _, ms := range members {
		ms[2].halt(t)
	}
	nodes[2].stop(t)
	for _, ms := range members {
		propose(t, ms[:2], 8, 10)
	}
	nodes[2] = start(t, testConfig("n3", 2))
	meet(nodes...)
	for g, ms := range members {
		ms[2] = run(t, nodes[2], id.GroupID(1024+g), nil, ms[2])
	}
	for _, ms := range members {
		propose(t, ms, 10, 12)
		equal(t, "entry 11", ms...)
	}
	if s := nodes[0].Stats(); len(s.Peers) != 2 || s.Peers[1].Epoch != 2 || s.Peers[1].FramesOut == 0 || s.Peers[1].Inbound.FramesIn == 0 {
		t.Errorf("stats: %+v", s)
	}
}

// A follower that is far behind gets a snapshot, larger than any message, on the
// connection of the streams.
func TestInstallSnapshot(t *testing.T) {
	nodes, members := clusterOf(t, 1)
	ms := members[0]
	propose(t, ms, 0, 1)
	lead := leader(t, ms...)
	var behind int
	for i, m := range ms {
		if m != lead {
			behind = i
		}
	}
	ms[behind].halt(t)
	big := strings.Repeat("x", 256<<10)
	for range 40 {
		until(t, "the large entry is applied", func() bool {
			lead = leader(t, ms[(behind+1)%3], ms[(behind+2)%3])
			return lead.Apply([]byte(big), 10*time.Second).Error() == nil
		})
	}
	for i, m := range ms { // whoever will lead
		if i == behind {
			continue
		}
		until(t, "the member has applied and snapshots", func() bool {
			_, last := m.fsm.state()
			return last == big && m.Snapshot().Error() == nil
		})
	}
	ms[behind] = run(t, nodes[behind], 1024, nil, ms[behind])
	propose(t, ms, 1, 2)
	equal(t, "entry 1", ms...)
	if n := ms[behind].Stats()["last_snapshot_index"]; n == "0" {
		t.Error("the follower has no snapshot")
	}
}

// Leadership can be handed over: TimeoutNow goes through.
func TestLeadershipTransfer(t *testing.T) {
	_, members := clusterOf(t, 1)
	ms := members[0]
	propose(t, ms, 0, 1)
	var old *member
	until(t, "leadership was handed over", func() bool {
		old = leader(t, ms...) // another one after an election
		return old.LeadershipTransfer().Error() == nil
	})
	until(t, "another member leads", func() bool {
		for _, m := range ms {
			if m != old && m.State() == raft.Leader {
				return true
			}
		}
		return false
	})
}
