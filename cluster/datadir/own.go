package datadir

import (
	"time"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/raftfsm"
)

// Store returns the directory's store.
func (d *Dir) Store() Store { return d.store }

// begin names the store of a new directory.
func (d *Dir) begin() error {
	d.store = Store{Name: newStoreID(), First: epochAt(time.Now())}
	return d.writeStore()
}

// writeStore writes both copies; a crash leaves one of them whole.
func (d *Dir) writeStore() error {
	r := sealed.Record{}.
		With(fieldCluster, d.cluster).
		With(fieldNode, string(d.node))
	return sealed.WriteTwice(d.path, nodeFile, d.store.addTo(r))
}

// Admit records that a catalog has taken the store.
func (d *Dir) Admit() error {
	if d.store.Admitted {
		return nil
	}
	d.store.Admitted = true
	return d.writeStore()
}

// Deny records that the node was refused with its store.
func (d *Dir) Deny() error {
	if d.store.Denied {
		return nil
	}
	d.store.Denied = true
	return d.writeStore()
}

// BeginCatalog notes from which index on the store's member of the catalog group may be
// empty, and its base. It comes before the member takes part.
func (d *Dir) BeginCatalog(index uint64, base raftfsm.Base) error {
	d.store.Admitted, d.store.Began, d.store.Base = true, index, base
	return d.writeStore()
}
