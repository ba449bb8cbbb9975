package cluster

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/quorate/quorate/quorumq"
)

// A node that starts again says how far it is: segments of its log, then groups, then
// leaders, each figure growing to its total (RE-7).
func TestStartProgress(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var reported []StartProgress
	n := newTestNodes(t, func(c *Config) {
		if c.Node == "c" {
			c.Starting = func(p StartProgress) {
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, p)
			}
		}
	})
	n.start("a", "b", "c")
	const queues = 5
	for i := range queues {
		q := n.nodes["a"].declare(t, fmt.Sprint("q", i), 3)
		n.nodes["a"].publish(t, q, "body", quorumq.Unlimited)
	}
	started := func() error {
		if p := n.nodes["c"].StartProgress(); p.Phase != StartDone || p.Done != p.Total {
			return fmt.Errorf("it is %s", p)
		}
		return nil
	}
	poll(t, "c has started", started)
	n.stop("c")
	reported = nil
	n.launch("c")
	n.ready("c")
	poll(t, "c has started again", started)
	if p := n.nodes["c"].StartProgress(); p.Total != queues || p.Unit != unitGroups {
		t.Errorf("started with %s, want %d groups", p, queues)
	}

	mu.Lock()
	defer mu.Unlock()
	want := []StartProgress{
		{Phase: StartLog},
		{Phase: StartLog, Total: 1, Unit: unitSegments},
		{Phase: StartLog, Done: 1, Total: 1, Unit: unitSegments},
		{Phase: StartCatalog},
	}
	if !slices.Equal(reported, want) {
		t.Errorf("the start said %v, want %v", reported, want)
	}
}

func TestStartProgressText(t *testing.T) {
	for want, p := range map[string]StartProgress{
		"opening the log":                   {Phase: StartLog},
		"opening the log: 3 of 40 segments": {Phase: StartLog, Done: 3, Total: 40, Unit: unitSegments},
		"opening groups: 0 of 7 groups":     {Phase: StartGroups, Total: 7, Unit: unitGroups},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
