package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
)

// Nodes that drain together do not hand groups to each other: the one that stays gets
// them all, and where none stays they give up instead of going round in circles.
func TestDrainTogether(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	const queues = 6
	for i := range queues {
		n.nodes["a"].declare(t, fmt.Sprint("q", i), 3)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	drain := func(ids ...id.NodeID) map[id.NodeID]error {
		var mu sync.Mutex
		var all sync.WaitGroup
		errs := map[id.NodeID]error{}
		for _, i := range ids {
			all.Go(func() {
				err := n.nodes[i].Drain(ctx, func(Progress) {})
				mu.Lock()
				defer mu.Unlock()
				errs[i] = err
			})
		}
		all.Wait()
		return errs
	}
	for i, err := range drain("a", "b") {
		if err != nil {
			t.Errorf("%s: %v", i, err)
		}
	}
	if led := n.nodes["c"].ledGroups(); len(led) != queues+1 {
		t.Errorf("c leads %d groups, want %d and the catalog", len(led), queues)
	}
	if err := drain("c")["c"]; err == nil || ctx.Err() != nil {
		t.Errorf("the last one: %v, %v, want an error before the time is over", err, ctx.Err())
	}
	if led := n.nodes["c"].ledGroups(); len(led) != queues+1 {
		t.Errorf("c leads %d groups after its drain, want %d and the catalog", len(led), queues)
	}
}
