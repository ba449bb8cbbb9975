package serving

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster"
)

// Times for which a node must not have reached a majority of the cluster's nodes.
const (
	// CutOffSteered is how long a node is cut off before clients are sent to others, see Broker.Fit.
	CutOffSteered = 300 * time.Millisecond
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

// DescribeReach names the nodes that this node reaches, and the remedy.
func DescribeReach(r cluster.Reach) string {
	return fmt.Sprintf("this node reaches %d of the cluster's %d nodes, which is no majority; use another node", r.Reached, r.Nodes)
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
