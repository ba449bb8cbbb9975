package serving

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/broker/failure"
)

// CutOff returns a channel that is closed once this node has been cut off from the majority of the
// cluster's nodes for CutOffEnds. Clients must then connect to another node.
func (s *Node) CutOff() <-chan struct{} {
	s.reach.mu.Lock()
	defer s.reach.mu.Unlock()
	return s.reach.cut
}

// WhyCutOff returns why this node counts as cut off; "" if it does not.
func (s *Node) WhyCutOff() string {
	s.reach.mu.Lock()
	defer s.reach.mu.Unlock()
	return s.reach.what
}

// ErrCutOff returns the error that ends a stream on a node that is cut off.
func (s *Node) ErrCutOff() error {
	return &failure.Error{Class: failure.Unavailable, Kind: "node", RetryAfter: failure.RetryAfter, Reason: cmp.Or(s.WhyCutOff(), "this node was cut off; use another node")}
}

// Fit returns nil while clients should stay. Otherwise it returns why another node would serve them better: this one
// is cut off, or its disk hangs.
func (s *Node) Fit() error {
	c := s.cluster
	if c.DiskHangs() {
		return errors.New("broker: a write to the node's disk hangs")
	}
	if r := c.Reach(); r.CutOff >= CutOffSteered {
		return errors.New("broker: " + DescribeReach(r))
	}
	return nil
}

// Admit returns nil if new streams may begin on this node. It refuses them while the node is
// drained or cut off.
func (s *Node) Admit() error {
	if s.cfg.Unloader.Draining() {
		return &failure.Error{Class: failure.Unavailable, Kind: "node", RetryAfter: failure.RetryAfter, Reason: "this node is drained; use another node"}
	}
	if s.WhyCutOff() != "" {
		return s.ErrCutOff()
	}
	return nil
}

// WatchReach updates whether this node is cut off, until ctx ends.
func (s *Node) WatchReach(ctx context.Context) {
	c := s.cluster
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		changed := c.ReachChanged()
		r := c.Reach()
		s.reach.update(s.log, r)
		var later <-chan time.Time
		if r.CutOff > 0 {
			again.Reset(max(CutOffEnds-r.CutOff, CutOffSteered))
			later = again.C
		}
		select {
		case <-changed:
		case <-later:
		case <-ctx.Done():
			return
		}
	}
}
