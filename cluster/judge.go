package cluster

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
)

// knocks are the peers that this node has refused lately. mu guards it.
type knocks struct {
	mu   sync.Mutex
	last map[id.NodeID]knock
}

// knock is what a refused peer showed last.
type knock struct {
	store     id.StoreID
	fresh     bool
	reason    string // one of RefusedPeers
	why       string
	since, at time.Time // the first of a row with that store, and the last
}

// knockAge is after which time a peer that was refused does not count as one that knocks: it
// tries every few seconds.
const knockAge = 15 * time.Second

// note takes a knock; first tells that it is none of a row, so that it is worth a line.
func (k *knocks) note(p transport.Peer, reason, why string, now time.Time) (first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, known := k.last[p.Node]
	if k.last == nil {
		k.last = map[id.NodeID]knock{}
	}
	if first = !known || last.store != p.Store || now.Sub(last.at) > knockAge; first {
		last = knock{store: p.Store, since: now}
	}
	last.fresh, last.reason, last.why, last.at = p.Fresh, reason, why, now
	k.last[p.Node] = last
	return first
}

// of returns the knock of a peer that is refused now.
func (k *knocks) of(n id.NodeID, now time.Time) (knock, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, known := k.last[n]
	return last, known && now.Sub(last.at) <= knockAge
}

// Why peers are refused, in metrics.
const (
	refusedStore     = "store"     // it comes with another one than it is registered with
	refusedForgotten = "forgotten" // it was taken out of the cluster
	refusedRecovered = "recovered" // a recovery gave it up
)

// RefusedPeers returns how many peers this node refuses now, by reason.
func (c *Cluster) RefusedPeers() map[string]int {
	by := map[string]int{refusedStore: 0, refusedForgotten: 0, refusedRecovered: 0}
	now := time.Now()
	c.knocks.mu.Lock()
	defer c.knocks.mu.Unlock()
	for _, k := range c.knocks.last {
		if now.Sub(k.at) <= knockAge {
			by[k.reason]++
		}
	}
	return by
}

// forget drops a peer that is let in.
func (k *knocks) forget(n id.NodeID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.last, n)
}

// refuses says why a peer is not talked to: by the view, or because a recovery gave it up.
// lost are the nodes of that (quorate recover).
func (c *Cluster) refuses(p transport.Peer, lost []id.NodeID) error {
	v := c.View()
	reason, why := refusedForgotten, v.Refuses(p.Node, p.Store, p.Fresh)
	if _, registered := v.Node(p.Node); registered {
		reason = refusedStore
	}
	if why == "" && slices.Contains(lost, p.Node) && !p.Fresh {
		if r, known := v.Node(p.Node); !known || r.Store == "" || r.Store != p.Store {
			reason, why = refusedRecovered, fmt.Sprintf("node %q was given up in a recovery, and what it has stored is over: "+
				"start it with an empty data directory: then it joins as a new node", p.Node)
		}
	}
	if why == "" {
		c.knocks.forget(p.Node)
		return nil
	}
	if c.knocks.note(p, reason, why, time.Now()) {
		c.log.Error("a node is refused", "peer", string(p.Node), "store", string(p.Store), "fresh", p.Fresh, "error", why)
	}
	return errors.New(why)
}

// freshStore tells that no catalog has taken this node's store yet.
func (c *Cluster) freshStore() bool {
	return c.catalog == nil && !c.dir.Store().Admitted || c.catalog != nil && c.catalog.freshStore()
}

// takesPart tells that this node's member of the catalog group does.
func (c *Cluster) takesPart() bool { return c.catalog != nil && c.catalog.part.Load() }

func (c *Cluster) refusedBy(n id.NodeID, why string) {
	if c.catalog != nil {
		c.catalog.refusedBy(n, why)
	}
}

func (c *Cluster) acceptedBy(n id.NodeID) {
	if c.catalog != nil {
		c.catalog.acceptedBy(n)
	}
}
