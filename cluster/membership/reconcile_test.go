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
		if got := p.due(begin.Add(c.at), c.nodes, nil); got != c.want {
			t.Errorf("at %v: %v", c.at, got)
		}
	}
	p.again = true
	now := p.last.Add(9 * time.Second)
	if p.due(now, "ab", nil) || !p.due(now.Add(time.Second), "ab", nil) || p.due(now.Add(20*time.Second), "ab", nil) {
		t.Error("what was left is looked at once more, after the delay")
	}
	policies := map[string]catalog.PolicySet{"/": {}}
	now = p.last
	if p.due(now, "ab", policies) || !p.due(now.Add(10*time.Second), "ab", policies) {
		t.Error("a change of policies is looked at after the delay")
	}
}

// RE-10: once leaders were looked at, they are so again when nodes change, or the interval is over.
func TestPaceOfLeaders(t *testing.T) {
	p := pace{interval: time.Hour, delay: time.Second, last: time.Now()}
	now := p.last
	p.due(now, "nodes", nil)
	if !p.due(now.Add(time.Second), "nodes", nil) || p.due(now.Add(10*time.Minute), "nodes", nil) || !p.due(now.Add(2*time.Hour), "nodes", nil) {
		t.Error("it is looked at again before nodes change or the interval is over")
	}
}
