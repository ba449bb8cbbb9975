package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/id"
)

// state reads nodes ("a b ?c !d": c does not run, d is lost for good) and groups, numbered
// from 1: "abc" led by a, "abc/5" that should have five members, "abc^b" that prefers b, "-abc"
// whose leader nobody knows, "=abc" that stays.
func state(t *testing.T, nodes, groups string) (s State) {
	t.Helper()
	for n := range strings.FieldsSeq(nodes) {
		name := strings.TrimLeft(n, "?!")
		s.Nodes = append(s.Nodes, Candidate{Node: id.NodeID(name), Alive: n == name, Lost: n[0] == '!'})
	}
	for i, g := range strings.Fields(groups) {
		g, preferred, _ := strings.Cut(g, "^")
		members, size, sized := strings.Cut(strings.TrimLeft(g, "=-"), "/")
		out := Group{UID: id.QueueUID(i + 1), Fixed: g[0] == '=', Preferred: id.NodeID(preferred)}
		for m := range strings.SplitSeq(members, "") {
			out.Members = append(out.Members, id.NodeID(m))
		}
		if g[0] != '-' {
			out.Leader = out.Members[0]
		}
		if sized {
			if _, err := fmt.Sscan(size, &out.Size); err != nil {
				t.Fatal(err)
			}
		}
		s.Groups = append(s.Groups, out)
	}
	return s
}

func text(moves []Move) string {
	var out []string
	for _, m := range moves {
		s := fmt.Sprintf("%d:", m.Group)
		if m.Join != "" {
			s += "+" + string(m.Join)
		}
		if m.Leave != "" {
			s += "-" + string(m.Leave)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// RE-3, RE-4.
func TestMoves(t *testing.T) {
	plans := map[string]func(State) string{
		"grow d":   func(s State) string { return text(Grow(s, "d")) },
		"spread":   func(s State) string { return text(Spread(s)) },
		"complete": func(s State) string { return text(Complete(s)) },
		"shrink a": func(s State) string {
			moves, stay := Shrink(s, "a", false)
			return strings.TrimSpace(text(moves) + fmt.Sprint(stay))
		},
		"move off a": func(s State) string {
			moves, stay := Shrink(s, "a", true)
			return strings.TrimSpace(text(moves) + fmt.Sprint(stay))
		},
		"balance": func(s State) string {
			return transfersText(Balance(s))
		},
		"spread, then balance": func(s State) string {
			moves := Spread(s)
			return text(moves) + ", " + transfersText(Balance(s.After(moves)))
		},
	}
	for _, c := range []struct{ plan, nodes, groups, want string }{
		{"grow d", "a b c d", "abc abd =abc d", "1:+d"},
		{"shrink a", "a b c", "abc bc a =ab ba", "1:-a 5:-a[q3]"},
		{"move off a", "a b c d", "abc ab a =abc", "1:+d-a 2:+d-a 3:+c-a[]"},
		{"move off a", "a b c", "abc ab", "2:+c-a[q1]"},
		{"move off a", "a b ?c !d", "ab a", "2:+b-a[q1]"},
		// RE-1: declared while there were two nodes.
		{"complete", "a b c", "ab/3 ab/3 abc/3 ab/2 ab", "1:+c 2:+c"},
		// One at a time, to those with the fewest, and no more than there are nodes.
		{"complete", "a b c d", "a/3 bc/3 abcd/5", "1:+d 2:+a"},
		{"complete", "a b ?c !d", "ab/3", ""},
		{"complete", "a b c d !x", "abx/3 xab/3 abc/3", "1:+d-x 2:+c-x"},
		{"complete", "a b !x", "abx/3 =ax", ""},
		{"complete", "a b c !x", "ax/3", "1:+b-x"},
		{"spread", "a b c d", "abc abc abc abc", "1:+d-b 2:+d-c 3:+d-a"},
		{"spread", "a b c", "abc abc", ""},
		{"spread", "a b", "a a a a =a", "1:+b-a 2:+b-a"},
		{"spread", "a ?b", "a a a", ""},
		{"spread", "a b", "a a b", ""},
		{"balance", "a b c", "abc abc abc abc abc", "1:a>b 2:a>c 3:a>b"},
		{"balance", "a b c", "abc bca cab", ""},
		// b takes over from a so that c can from b.
		{"balance", "a b c", "ab ab bc", "1:a>b 3:b>c"},
		{"balance", "a ?b c", "ab ab ac =ac", "3:a>c"},
		{"balance", "a b", "a a a", ""},
		// Leaders move to members that have joined by then; the one of 3 is open, for a leaves.
		{"spread, then balance", "a b c d", "abc abc abc abc", "1:+d-b 2:+d-c 3:+d-a, 1:a>c 2:a>b"},
		{"spread, then balance", "a b c", "abc abc abc", ", 1:a>b 2:a>c"},
	} {
		s := state(t, c.nodes, c.groups)
		if got := plans[c.plan](s); got != c.want {
			t.Errorf("%s with nodes %q, groups %q: %q, want %q", c.plan, c.nodes, c.groups, got, c.want)
		}
	}
}

// Whatever the state: plans keep to what they promise, and end.
func TestMovesAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		names := []id.NodeID{"a", "b", "c", "d", "e"}[:1+r.IntN(5)]
		var s State
		for _, n := range names {
			s.Nodes = append(s.Nodes, Candidate{Node: n, Alive: r.IntN(5) > 0, Lost: r.IntN(8) == 0})
		}
		for i := range r.IntN(30) {
			order := r.Perm(len(names))[:1+r.IntN(len(names))]
			g := Group{UID: id.QueueUID(i + 1), Size: r.IntN(6), Fixed: r.IntN(6) == 0}
			for _, at := range order {
				g.Members = append(g.Members, names[at])
			}
			g.Leader = g.Members[0]
			s.Groups = append(s.Groups, g)
		}
		shrunk, _ := Shrink(s, "a", r.IntN(2) == 0)
		for _, moves := range [][]Move{Grow(s, names[0]), shrunk, Complete(s), Spread(s)} {
			checkMoves(t, seed, s, moves)
		}
		before, after := map[id.NodeID]int{}, map[id.NodeID]int{}
		for _, g := range s.Groups {
			before[g.Leader]++
			after[g.Leader]++
		}
		for _, m := range Balance(s) {
			g := s.Groups[m.Group-1]
			if g.Fixed || !slices.Contains(g.Members, m.To) || m.From != g.Leader {
				t.Fatalf("seed %d: transfer %+v of %+v", seed, m, g)
			}
			after[m.From]--
			after[m.To]++
		}
		if squares(after) > squares(before) {
			t.Fatalf("seed %d: leaders %v became %v", seed, before, after)
		}
	}
}

func squares(counts map[id.NodeID]int) (sum int) {
	for _, c := range counts {
		sum += c * c
	}
	return sum
}

func checkMoves(t *testing.T, seed uint64, s State, moves []Move) {
	t.Helper()
	seen := map[id.QueueUID]bool{}
	for _, m := range moves {
		g := s.Groups[m.Group-1]
		switch {
		case g.Fixed, seen[g.UID], m.Join == "" && m.Leave == "",
			m.Join != "" && slices.Contains(g.Members, m.Join),
			m.Leave != "" && !slices.Contains(g.Members, m.Leave),
			m.Join == "" && len(g.Members) == 1:
			t.Fatalf("seed %d: move %+v of %+v", seed, m, g)
		}
		seen[g.UID] = true
	}
}
