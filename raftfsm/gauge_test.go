package raftfsm

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The leader's gauge of its oldest entry ends at its first look, and the leader continues. Not parallel: it counts
// goroutines of the process.
func TestGaugeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newLogCluster(t, 3, nil)
		l := leaderOf(t, all, nil)
		comes(t, "before", l.submit("a"))
		if n := gauges(); n != 1 {
			t.Fatalf("raft has changed: %d goroutines run %s, want 1", n, gauge)
		}
		time.Sleep(11 * time.Second)
		if n := gauges(); n != 0 {
			t.Errorf("%d goroutines run %s after its first look", n, gauge)
		}
		if !l.group.Leading() {
			t.Error("the leader was replaced")
		}
		comes(t, "after", l.submit("b"))
	})
}

func gauges() int {
	b := make([]byte, 1<<20)
	return strings.Count(string(b[:runtime.Stack(b, true)]), "\n"+gauge+"(")
}
