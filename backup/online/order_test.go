package online

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quorate/quorate/client"
)

func queue(name, exchange, key string) client.QueueInfo {
	q := client.QueueInfo{VHost: "/", Name: name, EffectiveArguments: client.Table{}}
	if exchange != "-" {
		q.EffectiveArguments[argDeadLetterExchange] = exchange
	}
	if key != "-" {
		q.EffectiveArguments[argDeadLetterKey] = key
	}
	return q
}

// TestGroups: sources come before their targets, by all ways there, and circles are one group.
func TestGroups(t *testing.T) {
	queues := []client.QueueInfo{
		queue("end", "-", "-"), queue("b", "", "end"), queue("a", "x", "-"), queue("loop1", "", "loop2"), queue("loop2", "", "loop1"),
		queue("before", "", "loop1"), queue("self", "", "self"), queue("lost", "", "nobody"), queue("nowhere", "none", "-"),
	}
	exchanges := []client.ExchangeInfo{{VHost: "/", Name: "x", Arguments: client.Table{argAlternateExchange: "y"}}, {VHost: "/", Name: "y"}}
	bindings := []client.Binding{
		{VHost: "/", Source: "y", Destination: "z", ToExchange: true},
		{VHost: "/", Source: "z", Destination: "b"},
		{VHost: "other", Source: "x", Destination: "loop1"},
	}
	groups := newTopology(queues, exchanges, bindings).groups(queues)
	at := map[string]int{}
	for i, g := range groups {
		for _, q := range g {
			at[queues[q].Name] = i
		}
	}
	for _, pair := range [][2]string{{"a", "b"}, {"b", "end"}, {"before", "loop1"}} {
		if at[pair[0]] >= at[pair[1]] {
			t.Errorf("%s comes in group %d, %s in group %d", pair[0], at[pair[0]], pair[1], at[pair[1]])
		}
	}
	if at["loop1"] != at["loop2"] || len(groups) != len(queues)-1 {
		t.Errorf("groups %v", groups)
	}
}

// TestGroupsOfRandom compares with the definition: two queues are in one group if each leads to the other.
func TestGroupsOfRandom(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		n := 1 + r.IntN(12)
		var queues []client.QueueInfo
		var bindings []client.Binding
		leads := make([][]bool, n)
		for i := range n {
			leads[i] = make([]bool, n)
			leads[i][i] = true
			queues = append(queues, queue(fmt.Sprint(i), fmt.Sprint("x", i), "-"))
			for range r.IntN(3) {
				j := r.IntN(n)
				leads[i][j] = true
				bindings = append(bindings, client.Binding{VHost: "/", Source: fmt.Sprint("x", i), Destination: fmt.Sprint(j)})
			}
		}
		for k := range n {
			for i := range n {
				for j := range n {
					leads[i][j] = leads[i][j] || leads[i][k] && leads[k][j]
				}
			}
		}
		groups := newTopology(queues, nil, bindings).groups(queues)
		at := make([]int, n)
		count := 0
		for g, members := range groups {
			for _, q := range members {
				at[q] = g
				count++
			}
		}
		for i := range n {
			for j := range n {
				if together := leads[i][j] && leads[j][i]; together != (at[i] == at[j]) || leads[i][j] && at[i] > at[j] {
					t.Fatalf("seed %d: groups %v of %v", seed, groups, leads)
				}
			}
		}
		if count != n || slices.ContainsFunc(groups, func(g []int) bool { return len(g) == 0 }) {
			t.Fatalf("seed %d: groups %v", seed, groups)
		}
	}
}
