package majority

import (
	"strings"
	"testing"
)

// A queue is critical if it stands still, or if the node that goes is one of the last that its majority needs.
func TestOfQueue(t *testing.T) {
	three := []string{"a", "b", "c"}
	for _, x := range []struct {
		members, online []string
		node            string
		problem         string // "": none
	}{
		{three, three, "", ""},
		{three, three, "a", ""},
		{three, []string{"a", "b"}, "", "stands still without one more of [\"a\" \"b\"]"},
		{three, []string{"a", "b"}, "a", "stands still without one more"},
		{three, []string{"a", "b"}, "c", ""},
		{three, []string{"a"}, "c", "it stands still: of its members [\"a\" \"b\" \"c\"] only [\"a\"]"},
		{[]string{"a"}, []string{"a"}, "", "its only member is on node \"a\""},
		{[]string{"a"}, []string{"a"}, "b", ""},
		{[]string{"a"}, nil, "", "it stands still"},
		{[]string{"a", "b"}, []string{"a", "b"}, "", "stands still without one more"},
		{[]string{"a", "b", "c", "d", "e"}, three, "b", "stands still without one more"},
	} {
		f, is := OfQueue(x.members, x.online, x.node)
		if is != (x.problem != "") || is && (!strings.Contains(f.Problem, x.problem) || f.Remedy == "") {
			t.Errorf("%q of %q, node %q: %+v, want %q", x.online, x.members, x.node, f, x.problem)
		}
	}
}

// Members that are not built anew yet speak against taking down every node but their own.
func TestOfNode(t *testing.T) {
	for _, x := range []struct {
		lost uint64
		goes string
		want bool
	}{{0, "", false}, {7, "", true}, {7, "a", true}, {7, "b", false}, {0, "a", false}} {
		f, is := OfNode("b", x.lost, x.goes)
		if is != x.want || is && (!strings.HasPrefix(f.Problem, "7 of its members") || f.Remedy == "") {
			t.Errorf("%d lost, %q goes: %+v, %v", x.lost, x.goes, f, is)
		}
	}
}
