package metadata

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// GivenUp are the nodes that a recovery on this node has given up (quorate recover). What such a node had stored
// never counts again; with another store the node may have come back. A view cannot show which store that is: after a
// start the view can be from before the recovery, and the nodes that have come back may be the very ones with a newer
// view. So this node records the stores itself.
type GivenUp struct {
	dir   *datadir.Dir
	log   *slog.Logger
	woken chan struct{} // has one element if Wake was called since Follow's last check

	mu   sync.Mutex // guards what follows
	back map[id.NodeID]id.StoreID
}

// ReadGivenUp reads what the recovery and Follow have noted.
func ReadGivenUp(dir *datadir.Dir, log *slog.Logger) (*GivenUp, error) {
	back, err := dir.Refused()
	return &GivenUp{dir: dir, log: log, woken: make(chan struct{}, 1), back: back}, err
}

// Wake makes Follow look again although the view has not changed: this start of the node was registered. It does not block.
func (u *GivenUp) Wake() { wait.Wake(u.woken) }

// over reports whether a node's store was given up.
func (u *GivenUp) over(n id.NodeID, s id.StoreID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	back, lost := u.back[n]
	return lost && back != s
}

// Follow records the stores with which nodes come back, until ctx ends. registered is the index at which the catalog
// registered this start of the node, 0 before that: an older view may be from before the recovery.
func (u *GivenUp) Follow(ctx context.Context, views *Views, registered func() uint64) {
	if len(u.back) == 0 {
		return
	}
	for {
		changed := views.Next()
		if v, at := views.View(), registered(); at > 0 && v.Index() >= at {
			for _, n := range slices.Sorted(maps.Keys(u.back)) {
				if r, known := v.Node(n); known && r.Store != "" && u.over(n, r.Store) {
					u.readmit(n, r.Store)
				}
			}
		}
		select {
		case <-changed:
		case <-u.woken:
		case <-ctx.Done():
			return
		}
	}
}

// readmit lets a node in with its new store from now on, also after the next start if that can be noted.
func (u *GivenUp) readmit(n id.NodeID, s id.StoreID) {
	u.mu.Lock()
	u.back[n] = s
	u.mu.Unlock()
	if err := u.dir.Readmit(n, s); err != nil {
		u.log.Error("it cannot be noted that a node has come back: after a start this node may refuse it for a while", "peer", string(n), "error", err)
		return
	}
	u.log.Info("a node that was given up in a recovery has come back with another store", "peer", string(n), "store", string(s))
}
