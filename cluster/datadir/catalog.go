package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/raftfsm"
)

// CheckCatalog compares what the catalog's member has stored with the mark. A member that is short or damaged is set
// aside: nothing must use it. fault is why it is not whole.
func (d *Dir) CheckCatalog() (whole bool, fault, err error) {
	d.catalogFound, fault = d.catalogStored()
	if fault != nil && !raftfsm.Damaged(fault) {
		return false, nil, fault
	}
	found, marked := d.catalogFound, d.mark.Catalog
	d.catalogWhole = fault == nil && found.Last >= marked.Last && found.Term >= marked.Term
	switch {
	case d.catalogWhole:
		return !d.store.Admitted || found.Last > 0, nil, nil
	case fault == nil:
		fault = fmt.Errorf("cluster: %q ends with entry %d of term %d, and had entry %d and term %d", d.Catalog(), found.Last, found.Term, marked.Last, marked.Term)
	}
	return false, fault, d.GiveUpCatalog(fault)
}

// CatalogFound returns how far the catalog's stored log reached at this start, and whether it reached the mark.
func (d *Dir) CatalogFound() (_ raftfsm.Extent, whole bool) { return d.catalogFound, d.catalogWhole }

// GiveUpCatalog sets what the catalog's member has stored aside, unless there is no other member from which it could
// be rebuilt.
func (d *Dir) GiveUpCatalog(fault error) error {
	if d.mark.Voters == 1 {
		return fmt.Errorf("%w: this node alone has the catalog, and nobody can restore it; it was left as it is: restore a backup of the whole "+
			"directory, or see docs/operations.md, \"Damaged files\": %w", sealed.ErrDamaged, fault)
	}
	d.catalogFound, d.catalogWhole = raftfsm.Extent{}, false
	if exists(filepath.Join(d.Catalog(), CatalogLog)) || HasSnapshot(d.Catalog()) { // else that was done before
		aside := filepath.Join(d.path, LostCatalog)
		err := errors.Join(os.RemoveAll(aside), os.Rename(d.Catalog(), aside), os.Mkdir(d.Catalog(), dirMode), sealed.SyncDir(d.path))
		if err != nil {
			return fmt.Errorf("cluster: setting the lost member of the catalog aside: %w", err)
		}
	}
	if d.store.Admitted {
		return nil
	}
	// It had just founded the cluster. What it has promised under this name it does not know.
	p, err := d.Promise()
	if err == nil {
		err = d.WritePromise(Promise{Proposals: p.Proposals})
	}
	if err != nil {
		return err
	}
	return d.begin()
}

// catalogStored reads how far the catalog's log on disk reaches; zero without one.
func (d *Dir) catalogStored() (e raftfsm.Extent, err error) {
	path := filepath.Join(d.Catalog(), CatalogLog)
	if !exists(path) {
		return e, nil
	}
	log, err := raftfsm.OpenBolt(path)
	if err != nil {
		return e, fmt.Errorf("cluster: opening the catalog's log: %w", err)
	}
	snapshots, err := raftfsm.OpenSnapshots(filepath.Join(d.Catalog(), SnapshotsDir), log)
	if err == nil {
		e, err = raftfsm.ExtentOf(log, snapshots)
	}
	return e, errors.Join(err, log.Close())
}
