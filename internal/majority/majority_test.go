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

// Members that are not rebuilt yet speak against taking down every node but their own, and so does it if nobody knows
// whether there are any on a node that counts.
func TestOfNode(t *testing.T) {
	fine := Node{Name: "b", Connected: true, Answers: true}
	lost, silent, away := fine, fine, fine
	lost.Lost, silent.Answers, away.Connected, away.Answers = 7, false, false, false
	for _, x := range []struct {
		node Node
		goes string
		want string // what the problem begins with; "": none
	}{
		{fine, "", ""},
		{lost, "", "7 of its members"},
		{lost, "a", "7 of its members"},
		{lost, "b", ""},
		{silent, "", "it does not answer"},
		{silent, "b", ""},
		{away, "a", ""},
	} {
		f, is := OfNode(x.node, x.goes)
		if is != (x.want != "") || is && (!strings.HasPrefix(f.Problem, x.want) || f.Remedy == "") {
			t.Errorf("%+v, %q goes: %+v, %v, want %q", x.node, x.goes, f, is, x.want)
		}
	}
}
