package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/id"
)

func transfersText(ts []Transfer) string {
	var out []string
	for _, m := range ts {
		out = append(out, fmt.Sprintf("%d:%s>%s", m.Group, m.From, m.To))
	}
	return strings.Join(out, " ")
}

// RE-10: when leaders are uneven, and the first steps that are taken then.
func TestEase(t *testing.T) {
	for _, c := range []struct {
		nodes, groups string
		uneven        bool
		limit, beyond int
		want          string
	}{
		{"a b c", "", false, 9, 0, ""},
		{"a", "a a a a a a", false, 9, 0, ""},
		{"a b c", "abc abc", false, 9, 1, "1:a>b"},
		{"a b c", "abc abc abc", true, 9, 2, "1:a>b 2:a>c"},
		{"a b c", "abc abc abc bca bca cab", false, 9, 1, "1:a>c"},
		// Two more than another is not worth it, nor a fifth of what each leads.
		{"a b", "ab ab ab ba", false, 9, 1, "1:a>b"},
		{"a b", "ab ab ab ab ba", true, 9, 1, "1:a>b"},
		{"a b", strings.Repeat("ab ", 18) + strings.Repeat("ba ", 15), false, 1, 1, "1:a>b"},
		{"a b", strings.Repeat("ab ", 19) + strings.Repeat("ba ", 15), true, 1, 2, "1:a>b"},
		// A few at a time.
		{"a b c", "abc abc abc abc abc abc", true, 2, 4, "1:a>b 2:a>c"},
		// To members that run alone, and not what is fixed or has no leader.
		{"a b ?c", "abc abc abc abc", true, 9, 2, "1:a>b 2:a>b"},
		{"a ?b ?c", "abc abc abc abc", false, 9, 0, ""},
		{"a b !c", "=abc =abc =abc abc", true, 9, 2, "4:a>b"},
		{"a b", "-ab -ab -ab -ab ab", false, 9, 0, ""},
		{"a b c", "a a a a", true, 9, 2, ""},
		// Those that prefer to be led there go first, those that prefer to stay last.
		{"a b c", "abc^a abc^a abc^c abc^b abc^a abc", true, 9, 4, "3:a>c 4:a>b 6:a>b 1:a>c"},
		{"a b c", "abc^a abc abc^a", true, 1, 2, "2:a>b"},
	} {
		s := state(t, c.nodes, c.groups)
		if got := Uneven(s); got != c.uneven {
			t.Errorf("nodes %q, groups %q: uneven %v, want %v", c.nodes, c.groups, got, c.uneven)
		}
		ts, beyond := Ease(s, c.limit)
		want := strings.Fields(c.want)
		slices.SortFunc(want, strings.Compare)
		got := strings.Fields(transfersText(ts))
		slices.SortFunc(got, strings.Compare)
		if !slices.Equal(got, want) || beyond != c.beyond {
			t.Errorf("nodes %q, groups %q: %q and %d beyond an even share, want %q and %d", c.nodes, c.groups, got, beyond, want, c.beyond)
		}
	}
}

// RE-10: what was eased to the end is even, and stays so: nothing moves twice.
func TestEaseEnds(t *testing.T) {
	for _, nodes := range []string{"a b", "a b c", "a b c d e"} {
		names := strings.Fields(nodes)
		s := state(t, nodes, strings.Repeat(strings.Join(names, "")+" ", 500))
		moved := map[id.QueueUID]bool{}
		for Uneven(s) {
			ts, _ := Ease(s, 50)
			if len(ts) == 0 || len(ts) > 50+len(names) {
				t.Fatalf("%s: %d transfers, 50 were asked for", nodes, len(ts))
			}
			for _, m := range ts {
				if moved[m.Group] {
					t.Fatalf("%s: group %d moves again", nodes, m.Group)
				}
				moved[m.Group], s.Groups[m.Group-1].Leader = true, m.To
			}
		}
		if fair := 500 - (500+len(names)-1)/len(names); len(moved) > fair {
			t.Errorf("%s: %d groups were moved, %d are beyond an even share", nodes, len(moved), fair)
		}
	}
}

// Leaders of many queues are planned a few at a time, which is cheap.
func BenchmarkEase(b *testing.B) {
	s := State{Nodes: []Candidate{up("a", 0, 0), up("b", 0, 0), up("c", 0, 0)}}
	for i := range 10000 {
		s.Groups = append(s.Groups, Group{UID: id.QueueUID(i + 1), Members: []id.NodeID{"a", "b", "c"}, Leader: "a"})
	}
	for b.Loop() {
		if ts, _ := Ease(s, 100); len(ts) != 100 {
			b.Fatal(len(ts))
		}
	}
}
