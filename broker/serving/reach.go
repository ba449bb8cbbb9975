package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster"
)

// Times for which a node must not have reached a majority of the cluster's nodes.
const (
	// CutOffTold is how long a node is cut off before clients are sent to others, see Broker.Fit.
	CutOffTold = 300 * time.Millisecond
	// CutOffUnready is until the node is not ready.
	CutOffUnready = time.Second
	// CutOffEnds is until its clients are cut off: they would wait for what cannot come.
	CutOffEnds = 3 * time.Second
)

// reach knows whether this node has been cut off for CutOffEnds. mu guards both.
type reach struct {
	mu   sync.Mutex
	cut  chan struct{} // closed while it is
	what string        // why, while it is
}

func newReach() *reach { return &reach{cut: make(chan struct{})} }

// CutOff returns a channel that is closed once this node has been cut off from the majority of the
// cluster's nodes for CutOffEnds: clients have to connect to another one.
func (s *Node) CutOff() <-chan struct{} {
	s.reach.mu.Lock()
	defer s.reach.mu.Unlock()
	return s.reach.cut
}

// WhyCutOff describes by what this node is cut off; "": it is not.
func (s *Node) WhyCutOff() string {
	s.reach.mu.Lock()
	defer s.reach.mu.Unlock()
	return s.reach.what
}

// ErrCutOff is the end of a stream on a node that is cut off.
func (s *Node) ErrCutOff() error {
	return &failure.Error{Class: failure.Unavailable, Kind: "node", RetryAfter: failure.RetryAfter, Reason: cmp.Or(s.WhyCutOff(), "this node was cut off; use another node")}
}

// Fit returns nil while clients do well to stay, else why another node, if there is one, serves
// them better: this one is cut off, or its disk hangs.
func (s *Node) Fit() error {
	c := s.cluster
	if c.DiskHangs() {
		return errors.New("broker: a write to the node's disk hangs")
	}
	if r := c.Reach(); r.CutOff >= CutOffTold {
		return errors.New("broker: " + DescribeReach(r))
	}
	return nil
}

// DescribeReach names the nodes that this node reaches, and the remedy.
func DescribeReach(r cluster.Reach) string {
	return fmt.Sprintf("this node reaches %d of the cluster's %d nodes, which is no majority; use another node", r.Reached, r.Nodes)
}

// WatchReach follows whether this node is cut off, until ctx ends.
func (s *Node) WatchReach(ctx context.Context) {
	c := s.cluster
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		changed := c.ReachChanged()
		r := c.Reach()
		s.reach.take(s.log, r)
		var later <-chan time.Time
		if r.CutOff > 0 {
			again.Reset(max(CutOffEnds-r.CutOff, CutOffTold))
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

// take notes whether the node is cut off.
func (x *reach) take(log *slog.Logger, r cluster.Reach) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch cut := r.CutOff >= CutOffEnds; {
	case cut && x.what == "":
		x.what = DescribeReach(r)
		close(x.cut)
		log.Warn("this node is cut off: its clients' streams and connections end, so that they go to other nodes",
			"reached", r.Reached, "nodes", r.Nodes, "for", r.CutOff)
	case !cut && x.what != "":
		x.what, x.cut = "", make(chan struct{})
		log.Info("this node is not cut off any more: it takes clients again", "reached", r.Reached, "nodes", r.Nodes)
	}
}
