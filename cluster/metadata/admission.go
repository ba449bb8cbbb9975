package metadata

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// Admission is whether this node's store is that of its node, and whether its member of the
// catalog group takes part (RE-9): docs/adr/0017-stores.md. The transport asks it, and a Group is made of that.
// All methods may be called concurrently.
type Admission struct {
	taken atomic.Bool // as the data directory says: a catalog has taken the store
	// part reports that the member acts in the catalog group. Until then Raft calls for it are
	// refused, and it does not stand.
	part    atomic.Bool
	parts   chan struct{}                   // of capacity 1: part was set
	began   atomic.Uint64                   // as the data directory says: datadir.Store.Began
	promise atomic.Pointer[datadir.Promise] // written by the founding loop after the disk has it
	refused atomic.Pointer[error]           // why the catalog does not take this node; nil: it does, or has not answered

	mu   sync.Mutex           // guards what follows
	shut map[id.NodeID]string // peers that refuse this node, and why
}

// ReadAdmission returns what a data directory says. Its catalog was checked.
func ReadAdmission(dir *datadir.Dir) (*Admission, error) {
	p, err := dir.Promise()
	if err != nil {
		return nil, err
	}
	a := &Admission{parts: make(chan struct{}, 1)}
	a.promise.Store(&p)
	a.taken.Store(dir.Store().Admitted)
	a.began.Store(dir.Store().Began)
	found, whole := dir.CatalogFound()
	a.part.Store(TakesPart(found.Last > 0, whole, dir.Store().Admitted, p.Founder != ""))
	return a, nil
}

// TakesPart reports whether a node's member of the catalog group may act in it when the node
// starts: give votes and answer for entries. What it has stored is whole if it reaches as far
// as the node knows that it did. A member with nothing may act only if its store has promised itself to a
// founding, and no catalog has taken it since; any other has been promised to others and was
// lost, or never began: it asks by catalog.LeaveCatalog when it may begin.
func TakesPart(stored, whole, admitted, promised bool) bool {
	return whole && (stored || !admitted && promised)
}

// FreshStore reports that no catalog has taken this node's store yet.
func (a *Admission) FreshStore() bool { return !a.taken.Load() }

// Began returns an index of the catalog at which this node was registered with its store; 0: none is stored, as with
// the nodes that founded the cluster.
func (a *Admission) Began() uint64 { return a.began.Load() }

// TakesPart reports that this node's member of the catalog group does.
func (a *Admission) TakesPart() bool { return a.part.Load() }

// Promise returns to whom this node has promised itself for the founding.
func (a *Admission) Promise() datadir.Promise { return *a.promise.Load() }

// takePart lets the member act.
func (a *Admission) takePart() {
	a.part.Store(true)
	wait.Wake(a.parts)
}

// AcceptedBy records that a peer accepts this node.
func (a *Admission) AcceptedBy(n id.NodeID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.shut, n)
}

// shutBy records that a peer refuses this node.
func (a *Admission) shutBy(n id.NodeID, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shut == nil {
		a.shut = map[id.NodeID]string{}
	}
	a.shut[n] = why
}

// refusal returns why this node may not take part: the catalog refuses it, or peers refuse it and, according to
// connected, none accepts it.
func (a *Admission) refusal(connected func() bool) error {
	if err := a.refused.Load(); err != nil {
		return *err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.shut) == 0 || connected() {
		return nil
	}
	n := slices.Min(slices.Collect(maps.Keys(a.shut)))
	return fmt.Errorf("cluster: this node may not take part: node %q says: %s", n, a.shut[n])
}
