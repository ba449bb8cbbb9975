package queues

import (
	"context"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
)

// figures returns figures that are fresh enough.
func (qs *Queues) figures() (*allFigures, error) {
	s := &qs.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && time.Since(s.last.at) < figuresFreshFor {
		return s.last, nil
	}
	ctx, cancel := context.WithTimeout(qs.life, figuresTimeout) // not the caller's: others wait for the same figures
	defer cancel()
	status, err := qs.cluster.Status(ctx)
	if err != nil {
		return nil, err
	}
	var before *cluster.AllFigures
	if s.last != nil {
		before = s.last.led
	}
	qs.losses.refresh(qs.life)
	all, err := qs.cluster.AllFigures(ctx, before)
	if err != nil {
		return nil, err
	}
	lost := qs.losses.newest(qs.life, figuresTimeout)
	s.last = &allFigures{at: time.Now(), led: all, alive: map[id.NodeID]bool{}, lost: lost, silent: id.Names(all.Silent)}
	for i := range status.Nodes {
		if n := &status.Nodes[i]; n.Alive && n.Refused == "" {
			s.last.alive[n.ID] = true
		}
	}
	return s.last, nil
}
