package placement

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/id"
)

func up(n string, replicas, leaders int) Candidate {
	return Candidate{Node: id.NodeID(n), Replicas: replicas, Leaders: leaders, Alive: true}
}

func down(n string) Candidate { return Candidate{Node: id.NodeID(n)} }

func drains(n string) Candidate { return Candidate{Node: id.NodeID(n), Alive: true, Drains: true} }

// RE-1, RE-2, RE-3.
func TestPlace(t *testing.T) {
	even := []Candidate{up("c", 0, 0), up("a", 0, 0), up("b", 0, 0)}
	five := []Candidate{up("a", 9, 4), up("b", 3, 3), up("c", 1, 2), up("d", 2, 1), up("e", 1, 2)}
	for _, c := range []struct {
		name    string
		nodes   []Candidate
		size    int
		local   id.NodeID
		locator Locator
		members string
		leader  id.NodeID
		err     string
	}{
		{name: "one node", nodes: []Candidate{up("a", 0, 0)}, size: 3, local: "a", members: "a", leader: "a"},
		{name: "default size", nodes: five, local: "b", members: "b, c, e", leader: "b"},
		{name: "size larger than the cluster", nodes: even, size: 7, local: "b", members: "b, a, c", leader: "b"},
		{name: "ties by id", nodes: even, size: 2, local: "c", members: "c, a", leader: "c"},
		{name: "local although it holds most", nodes: five, size: 3, local: "a", members: "a, c, e", leader: "a"},
		{name: "balanced", nodes: five, size: 5, local: "a", locator: Balanced, members: "a, c, e, d, b", leader: "d"},
		{name: "balanced, ties by id", nodes: five, size: 3, local: "a", locator: Balanced, members: "a, c, e", leader: "c"},
		{name: "no local node", nodes: five, size: 3, members: "c, e, d", leader: "d"},
		{
			name: "running nodes first", nodes: []Candidate{up("a", 5, 5), down("b"), up("c", 9, 1)}, size: 2, local: "a",
			members: "a, c", leader: "a",
		},
		{
			name: "one of three does not run", nodes: []Candidate{up("a", 5, 5), down("b"), up("c", 9, 1)}, size: 3, local: "a",
			locator: Balanced, members: "a, c, b", leader: "c",
		},
		{
			name: "local seems down", nodes: []Candidate{down("a"), up("b", 0, 2), up("c", 0, 1)}, size: 3, local: "a",
			members: "a, b, c", leader: "c",
		},
		{name: "those that drain come last", nodes: []Candidate{drains("a"), up("b", 9, 9), up("c", 9, 8)}, size: 2, local: "b", members: "b, c", leader: "b"},
		{name: "local drains", nodes: []Candidate{drains("a"), up("b", 9, 9), up("c", 9, 8)}, size: 2, local: "a", members: "b, c", leader: "c"},
		{name: "local drains and is needed", nodes: []Candidate{drains("a"), up("b", 9, 9), up("c", 9, 8)}, size: 3, local: "a", members: "b, c, a", leader: "c"},
		{name: "all drain", nodes: []Candidate{drains("a"), drains("b"), drains("c")}, size: 3, local: "b", members: "a, b, c", leader: "a"},
		{
			name: "no quorum", nodes: []Candidate{up("a", 0, 0), down("b"), down("c")}, size: 3, local: "a",
			err: "placement: too few nodes run: 1 of the 3 nodes a, b, c run, a group of 3 starts with 2: start more of them, or ask for a smaller group",
		},
		{name: "no nodes", local: "a", err: "placement: there are no nodes to choose from"},
		{name: "negative size", nodes: even, size: -1, err: "placement: the group's size is -1: ask for at least 1 member"},
		{name: "unknown local", nodes: even, local: "x", err: `placement: local node "x" is not among the nodes`},
		{
			name: "listed twice", nodes: []Candidate{up("a", 0, 0), up("a", 1, 0)},
			err: `placement: node "a" is empty or listed twice: list every node once`,
		},
		{
			name: "unknown locator", nodes: even, locator: 9,
			err: "placement: locator 9 is not known: use client-local or balanced",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			members, leader, err := Place(c.nodes, c.size, c.local, c.locator)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Fatalf("error %v, want %s", err, c.err)
				}
				if strings.HasPrefix(c.name, "no quorum") != errors.Is(err, ErrNoQuorum) {
					t.Errorf("errors.Is(ErrNoQuorum) = %v", errors.Is(err, ErrNoQuorum))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if names(members) != c.members || leader != c.leader {
				t.Errorf("members %s led by %s, want %s led by %s", names(members), leader, c.members, c.leader)
			}
		})
	}
}

// The answer does not depend on the order of the input, and groups placed one after
// the other spread evenly.
func TestPlaceSpreads(t *testing.T) {
	nodes := []Candidate{up("a", 0, 0), up("b", 0, 0), up("c", 0, 0), up("d", 0, 0), up("e", 0, 0)}
	chance := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		members, leader, err := Place(nodes, 3, "", Balanced)
		if err != nil {
			t.Fatal(err)
		}
		shuffled := slices.Clone(nodes)
		chance.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again, l, err := Place(shuffled, 3, "", Balanced)
		if err != nil || !slices.Equal(again, members) || l != leader {
			t.Fatalf("%v led by %s, in another order %v led by %s (%v)", members, leader, again, l, err)
		}
		for i := range nodes {
			if slices.Contains(members, nodes[i].Node) {
				nodes[i].Replicas++
			}
			if nodes[i].Node == leader {
				nodes[i].Leaders++
			}
		}
	}
	for _, n := range nodes {
		if n.Replicas != 300 || n.Leaders < 98 || n.Leaders > 102 {
			t.Errorf("%s holds %d replicas and leads %d groups, want 300 and about 100", n.Node, n.Replicas, n.Leaders)
		}
	}
}
