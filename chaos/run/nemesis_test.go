package run

import (
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/fault"
)

// A fault whose healing needs the other nodes is healed behind those that hold them, whenever it is due.
func TestLastIsHealedLast(t *testing.T) {
	now := time.Now()
	n := &nemesis{open: []open{
		{name: "restart", Fault: fault.Fault{Last: true}, until: now.Add(time.Second)},
		{name: "kill", until: now.Add(4 * time.Second)},
		{name: "rebuild", Fault: fault.Fault{Last: true}, until: now},
		{name: "pause", until: now.Add(2 * time.Second)},
	}}
	for _, want := range []string{"pause", "kill", "rebuild", "restart"} {
		i, at := n.nextDue()
		if got := n.open[i]; got.name != want || at != got.until {
			t.Errorf("%s is due next, want %s", got.name, want)
		}
		n.open = append(n.open[:i:i], n.open[i+1:]...)
	}
	if i, _ := n.nextDue(); i != -1 {
		t.Errorf("%d is due", i)
	}
}
