package serving

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster"
)

// How long a node must have been unable to reach a majority of the cluster's nodes.
const (
	// CutOffSteered is the time after which clients are sent to other nodes, see Node.Fit.
	CutOffSteered = 300 * time.Millisecond
	// CutOffUnready is the time after which the node is not ready.
	CutOffUnready = time.Second
	// CutOffEnds is the time after which its clients' connections end. They would only wait in
	// vain.
	CutOffEnds = 3 * time.Second
)

// reach holds whether this node has been cut off for CutOffEnds. mu guards both fields.
type reach struct {
	mu   sync.Mutex
	cut  chan struct{} // closed while the node is cut off
	what string        // why the node is cut off; "": it is not
}

func newReach() *reach { return &reach{cut: make(chan struct{})} }

// DescribeReach describes how many nodes this node reaches, and names the remedy.
func DescribeReach(r cluster.Reach) string {
	return fmt.Sprintf("this node reaches %d of the cluster's %d nodes, which is no majority; use another node", r.Reached, r.Nodes)
}

// update records whether the node is cut off.
func (x *reach) update(log *slog.Logger, r cluster.Reach) {
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
