package membership

import (
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
)

// pace is what decides when to look at queues.
func TestPace(t *testing.T) {
	begin := time.Unix(0, 0)
	p := pace{interval: time.Hour, delay: 10 * time.Second, last: begin}
	for _, c := range []struct {
		at    time.Duration
		nodes string
		want  bool
	}{
		{time.Second, "ab", false}, // it begins to lead
		{10 * time.Second, "ab", false},
		{11 * time.Second, "ab", true},
		{60 * time.Second, "ab", false},
		{70 * time.Second, "abc", false},
		{75 * time.Second, "ab", false}, // came and went
		{84 * time.Second, "ab", false},
		{85 * time.Second, "ab", true},
		{86 * time.Second, "ab", false},
		{85*time.Second + time.Hour, "ab", true},
	} {
		if got := p.due(begin.Add(c.at), c.nodes, nil, false); got != c.want {
			t.Errorf("at %v: %v", c.at, got)
		}
	}
	p.again = true
	now := p.last.Add(9 * time.Second)
	if p.due(now, "ab", nil, false) || !p.due(now.Add(time.Second), "ab", nil, false) || p.due(now.Add(20*time.Second), "ab", nil, false) {
		t.Error("what was left is looked at once more, after the delay")
	}
	policies := map[string]catalog.PolicySet{"/": {}}
	now = p.last
	if p.due(now, "ab", policies, false) || !p.due(now.Add(10*time.Second), "ab", policies, false) {
		t.Error("a change of policies is looked at after the delay")
	}
}

// What changes all the time does not keep queues from being looked at: policies, which need not be steady, and nodes.
func TestPaceOfChangesWithoutEnd(t *testing.T) {
	for _, c := range []struct {
		what    string
		longest time.Duration
		nodes   [2]string // in turns
		short   bool
		want    time.Duration // until it is due
	}{
		{"policies", time.Minute, [2]string{"ab", "ab"}, false, 10 * time.Second},
		{"short queues", time.Minute, [2]string{"ab", "ab"}, true, 10 * time.Second},
		{"nodes", time.Minute, [2]string{"a", "ab"}, false, time.Minute},
		{"nodes, where they must be steady", 0, [2]string{"a", "ab"}, false, time.Hour},
	} {
		begin, got := time.Unix(1000, 0), time.Duration(0)
		p := pace{interval: time.Hour, delay: 10 * time.Second, longest: c.longest, last: begin, nodes: c.nodes[1], changed: begin.Add(-time.Hour)}
		for i := range 2 * 3600 {
			policies := map[string]catalog.PolicySet{"/": {}}
			if i%2 == 1 && c.what == "policies" {
				policies = nil
			}
			if now := begin.Add(time.Duration(i) * time.Second); p.due(now, c.nodes[i%2], policies, c.short) {
				if got = now.Sub(begin); got > 0 {
					break
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: due after %v, want %v", c.what, got, c.want)
		}
	}
}

// RE-10: once leaders were looked at, they are so again when nodes change, or the interval is over.
func TestPaceOfLeaders(t *testing.T) {
	p := pace{interval: time.Hour, delay: time.Second, last: time.Now()}
	now := p.last
	p.due(now, "nodes", nil, false)
	if !p.due(now.Add(time.Second), "nodes", nil, false) || p.due(now.Add(10*time.Minute), "nodes", nil, false) || !p.due(now.Add(2*time.Hour), "nodes", nil, false) {
		t.Error("it is looked at again before nodes change or the interval is over")
	}
}
