package groupsim

import "testing"

// Each rule is broken by what must not be, and by nothing else.
func TestRules(t *testing.T) {
	a1, a2, b1 := start{"a", 1}, start{"a", 2}, start{"b", 1}
	for _, row := range []struct {
		name string
		do   func(*rules)
		want string // the rule; "": none
	}{
		{"a vote and the next term's", func(r *rules) { r.voted(a1, "b", 3); r.voted(a2, "c", 4) }, ""},
		{"the same vote again", func(r *rules) { r.voted(a1, "b", 3); r.voted(a2, "b", 3) }, ""},
		{"two votes in a term", func(r *rules) { r.voted(a1, "b", 3); r.voted(a2, "c", 3) }, "one vote"},
		{"two votes in a life", func(r *rules) { r.voted(a1, "b", 3); r.voted(a1, "c", 3) }, "one vote"},
		{"a leader that has voted for another", func(r *rules) { r.voted(a1, "b", 3); r.leads(a2, 3) }, "one vote"},
		{"a vote of a leader for another", func(r *rules) { r.leads(a1, 3); r.voted(a2, "b", 3) }, "one vote"},
		{"a candidate that has voted for another", func(r *rules) { r.voted(a1, "b", 3); r.stands(a1, 3) }, "one vote"},
		{"a candidate in the next term", func(r *rules) { r.voted(a1, "b", 3); r.stands(a2, 4) }, ""},
		{"a candidate twice, before its own vote was stored", func(r *rules) { r.stands(a1, 3); r.stands(a2, 3) }, ""},
		{"a vote in an older term", func(r *rules) { r.voted(a1, "b", 3); r.voted(a2, "b", 2) }, "terms"},
		{"answers that overtake each other", func(r *rules) { r.voted(a1, "b", 3); r.answered(a1, 2) }, ""},
		{"an answer to an older leader", func(r *rules) { r.answered(a1, 3); r.answered(a2, 2) }, "terms"},
		{"an answer to the same leader", func(r *rules) { r.answered(a1, 3); r.answered(a2, 3) }, ""},
		{"a candidate in the term of a leader that it has followed", func(r *rules) { r.answered(a1, 3); r.stands(a2, 3) }, "terms"},
		{"a leader", func(r *rules) { r.leads(a1, 3); r.leads(a1, 3); r.leads(b1, 4) }, ""},
		{"two leaders", func(r *rules) { r.leads(a1, 3); r.leads(b1, 3) }, "one leader"},
		{"a leader of the same term after a start", func(r *rules) { r.leads(a1, 3); r.leads(a2, 3) }, "one leader"},
		{"a command on a majority", func(r *rules) { r.confirm("x", 2, 3); r.judge([]string{"lead a 1", "x"}) }, ""},
		{"a command on half of five", func(r *rules) { r.confirm("x", 2, 5) }, "PUB-7"},
		{"a lost command", func(r *rules) { r.confirm("x", 3, 3); r.judge(nil) }, "PUB-7"},
		{"an invented one", func(r *rules) { r.judge([]string{"x"}) }, "PUB-5"},
		{"one twice", func(r *rules) { r.confirm("x", 3, 3); r.judge([]string{"x", "x"}) }, "PUB-6"},
		{"one of unknown outcome", func(r *rules) { r.fates["x"] = unknown; r.judge([]string{"x"}) }, ""},
		{"one that was not stored", func(r *rules) { r.fates["x"] = unknown; r.judge(nil) }, ""},
	} {
		r, got := newRules(), ""
		if row.do(r); r.first != nil {
			got = r.first.Rule
		}
		if got != row.want {
			t.Errorf("%s: broke %q, want %q", row.name, got, row.want)
		}
	}
}

// The first answer for entries of a term is distinguished from those that follow.
func TestFirstAnswer(t *testing.T) {
	r, m := newRules(), start{"a", 1}
	for i, row := range []struct {
		term uint64
		want bool
	}{{1, true}, {1, false}, {3, true}, {3, false}} {
		if got := r.answered(m, row.term); got != row.want {
			t.Errorf("answer %d, of term %d: first is %v", i, row.term, got)
		}
	}
}
