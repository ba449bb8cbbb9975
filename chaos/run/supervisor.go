package run

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/internal/wait"
)

// superviseEvery is the interval between checks of processes. A process that is gone in two checks has ended by
// itself.
const superviseEvery = 500 * time.Millisecond

// supervisor starts nodes again that have ended by themselves, as systemd or Kubernetes do: a node ends when its disk
// hangs for long, for example, and a machine may do that to it without a fault of the run.
type supervisor struct {
	cfg Config

	mu   sync.Mutex
	held map[string]int // faults that last, by node: what these end is theirs
}

func newSupervisor(cfg Config) *supervisor { return &supervisor{cfg: cfg, held: map[string]int{}} }

// hold counts faults that nodes are hit by.
func (s *supervisor) hold(nodes []string, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range nodes {
		s.held[n] += by
	}
}

// isHeld reports whether a fault lasts on a node.
func (s *supervisor) isHeld(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[node] > 0
}

// run looks until ctx ends.
func (s *supervisor) run(ctx context.Context) {
	processes, can := s.cfg.Cluster.(target.Unsupervised)
	if !can {
		return
	}
	var before []string
	for wait.For(ctx, superviseEvery) == nil {
		var gone []string
		for _, n := range s.cfg.Cluster.Nodes() {
			if !processes.Running(n.ID) && !s.isHeld(n.ID) {
				gone = append(gone, n.ID)
			}
		}
		for _, n := range gone {
			if slices.Contains(before, n) && !s.isHeld(n) {
				s.cfg.Log("node %s has ended by itself, and is started again: %v", n, processes.Start(ctx, n))
				s.cfg.History.Add(history.Event{Kind: history.Ended, Node: n})
			}
		}
		before = gone
	}
}
