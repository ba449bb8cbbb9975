package sim

import (
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/clock"
)

// staleMs is how old a node's view may be when it answers that something does not exist (EX-16). A run is short, so
// it is less than a real node's.
const staleMs = 600

// stored is what a node has on its disk of the catalog, and knows of how old its view is.
type stored struct {
	view   *catalog.View
	proven clock.Reading // of its clocks
	known  bool          // that it was proven
}

// storeView lets a node have its view on its disk.
func (w *world) storeView() {
	n := w.nodes[w.viewRNG.IntN(members)]
	if n.up {
		n.stored.view = n.view
	}
}

// reading is what a node measures the age of its view by.
func (n *node) reading() clock.Reading {
	if !n.w.swarm.clocks {
		return clock.Reading{Elapsed: n.w.truth()}
	}
	return n.clocks.read(0)
}

// age is how old the view is as the node knows it: a machine that was paused finds out by its wall
// clock.
func (n *node) age() time.Duration {
	now := n.reading()
	return max(now.Elapsed-n.stored.proven.Elapsed, now.Wall-n.stored.proven.Wall)
}

// restartView begins with what was stored, if the seed has views that lag.
func (n *node) restartView() {
	n.view = n.w.catalog.View()
	if !n.w.swarm.lags {
		return
	}
	n.view, n.stored.known = n.stored.view, false
	if n.w.cfg.Fault == FaultEarlyService {
		n.stored.proven, n.stored.known = n.reading(), true
	}
}

// serves reports whether a node takes clients: its view was confirmed in this life.
func (n *node) serves() bool { return !n.w.swarm.lags || n.stored.known }

// hearsCatalog reports whether a node reaches a majority, and so the catalog's leader.
func (w *world) hearsCatalog(n *node) bool {
	if !w.swarm.lags {
		return n.up
	}
	reached := 0
	for _, o := range w.nodes {
		if o == n || w.connected(n.idx, o.idx) {
			reached++
		}
	}
	return n.up && reached > members/2
}

// prove lets a node ask the catalog's leader for the catalog's index, and see all up to it.
func (w *world) prove(n *node) {
	if w.hearsCatalog(n) {
		n.view, n.stored.proven, n.stored.known = w.catalog.View(), n.reading(), true
	}
}

// lose publishes by name to a queue that the node may not know. That it is not there is
// confirmed, and the message is gone; so it must have been so a short time ago (EX-16).
func (w *world) lose(n *node, place int) {
	if _, known := n.view.Queue(vhost, queueNames[place]); known || !n.serves() {
		return
	}
	if n.age() > staleMs*time.Millisecond && w.cfg.Fault != FaultOldViews {
		return // refused as unavailable
	}
	w.event("unroutable node place", int64(n.idx), int64(place))
	g := w.alive(place)
	if g == nil || w.swarm.clocks && n.idx == w.wrong {
		return
	}
	if age := w.now - g.madeAt; age > staleMs {
		w.broke("EX-16", "node %s confirms that queue %s is not there, which was made %d ms ago", n.name, g.name, age)
	}
}
