package metadata

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
)

// Judge decides which peers are talked to, and knows those that it has refused lately. Its
// methods may be called concurrently.
type Judge struct {
	view    func() *catalog.View
	givenUp *GivenUp
	log     *slog.Logger

	mu   sync.Mutex // guards what follows
	last map[id.NodeID]Knock
}

// NewJudge returns one that judges by the view, and by what was given up in a recovery.
func NewJudge(view func() *catalog.View, givenUp *GivenUp, log *slog.Logger) *Judge {
	return &Judge{view: view, givenUp: givenUp, log: log, last: map[id.NodeID]Knock{}}
}

// Knock is what a refused peer showed last.
type Knock struct {
	Fresh bool      // no catalog has taken its store
	Why   string    // it is refused
	Since time.Time // the first of a row with that store

	store  id.StoreID
	reason string // one of Refused
	at     time.Time
}

// knockAge is after which time a peer that was refused does not count as one that knocks: it
// tries every few seconds.
const knockAge = 15 * time.Second

// note records a knock; first reports that it does not follow other recent ones, so that it is worth a log line.
func (j *Judge) note(p transport.Peer, reason, why string, now time.Time) (first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last, known := j.last[p.Node]
	if first = !known || last.store != p.Store || now.Sub(last.at) > knockAge; first {
		last = Knock{store: p.Store, Since: now}
	}
	last.Fresh, last.reason, last.Why, last.at = p.Fresh, reason, why, now
	j.last[p.Node] = last
	return first
}

// Of returns the last knock of a peer that is being refused.
func (j *Judge) Of(n id.NodeID, now time.Time) (Knock, bool) {
	last, knocked := j.lately(n, now)
	return last, knocked && !j.taken(n, last)
}

// Returned reports whether a peer was refused lately, and is registered by now with the store that it came with. It
// runs, although this node may not be connected to it yet.
func (j *Judge) Returned(n id.NodeID, now time.Time) bool {
	last, knocked := j.lately(n, now)
	return knocked && j.taken(n, last)
}

// lately returns the last knock of a peer, and whether it is recent.
func (j *Judge) lately(n id.NodeID, now time.Time) (Knock, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last, known := j.last[n]
	return last, known && now.Sub(last.at) <= knockAge
}

// taken reports whether the cluster knows a peer by now with the store that it knocked with: another node has let it in.
func (j *Judge) taken(n id.NodeID, last Knock) bool {
	r, registered := j.view().Node(n)
	return registered && r.Store != "" && r.Store == last.store
}

// Why peers are refused, in metrics.
const (
	refusedStore     = "store"     // its store is not the registered one
	refusedForgotten = "forgotten" // it was taken out of the cluster
	refusedRecovered = "recovered" // a recovery gave it up
)

// Refused returns how many peers this node refuses now, by reason.
func (j *Judge) Refused() map[string]int {
	by := map[string]int{refusedStore: 0, refusedForgotten: 0, refusedRecovered: 0}
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	for n, last := range j.last {
		if now.Sub(last.at) <= knockAge && !j.taken(n, last) {
			by[last.reason]++
		}
	}
	return by
}

// forget drops a peer that is let in.
func (j *Judge) forget(n id.NodeID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.last, n)
}

// Refuses returns why this node does not accept a peer: because of the view, or because a recovery gave the peer up.
// A view from before the peer was registered with its store does not know: a node that has just started has the view
// of its last snapshot, and may need that very peer to get a newer one. Then it judges again.
func (j *Judge) Refuses(p transport.Peer) error {
	v := j.view()
	reason, why := refusedForgotten, v.Refuses(p.Node, p.Store, p.Fresh)
	if p.Began > v.Index() {
		why = ""
	}
	if _, registered := v.Node(p.Node); registered {
		reason = refusedStore
	}
	if why == "" && !p.Fresh && j.givenUp.over(p.Node, p.Store) {
		reason, why = refusedRecovered, fmt.Sprintf("node %q was given up in a recovery, and what it has stored is over: "+
			"start it with an empty data directory: then it joins as a new node", p.Node)
	}
	if why == "" {
		j.forget(p.Node)
		return nil
	}
	if j.note(p, reason, why, time.Now()) {
		j.log.Error("a node is refused", "peer", string(p.Node), "store", string(p.Store), "fresh", p.Fresh, "error", why)
	}
	return errors.New(why)
}
