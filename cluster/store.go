package cluster

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// store is what a data directory knows of itself (RE-9): docs/adr/0017-stores.md.
type store struct {
	name id.StoreID
	// first is the epoch of its first start: no earlier store of the node had one that is as
	// high. 0: it is of a build that counted from 1.
	first id.Epoch
	// admitted tells that a catalog has taken the store as that of its node. Until then it is
	// fresh: it has promised nothing to anybody.
	admitted bool
	// began is the index of the catalog from which on the store's member of the catalog group
	// may have begun with nothing. Whoever finds it empty at a start asks for a newer one.
	began uint64
	// denied tells that the node was refused with it before the cluster knew stores, so that an
	// earlier registration of the node was not its own.
	denied bool
}

const (
	fieldStore    = "store"
	fieldFirst    = "first"
	fieldAdmitted = "admitted"
	fieldBegan    = "began"
	fieldDenied   = "denied"
	yes           = "yes"
)

const (
	storeBytes = 16
	// epochBits are the bits of a first epoch below the milliseconds: taken by chance, and room
	// for the starts of that store. Milliseconds go above them, so that epochs stay below 2^53,
	// which every JSON reader takes, until 2039.
	epochBits = 12
)

func newStoreID() id.StoreID {
	var b [storeBytes]byte
	_, _ = rand.Read(b[:]) // it never fails
	return id.StoreID(hex.EncodeToString(b[:]))
}

// epochAt returns the first epoch of a store that begins at a time.
func epochAt(now time.Time) id.Epoch {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	chance := binary.LittleEndian.Uint64(b[:]) & (1<<epochBits - 1)
	return id.Epoch(uint64(now.UnixMilli())<<epochBits | chance) // times are of after 1970
}

// begin names the store of a new directory.
func (d *dataDir) begin() error {
	d.store = store{name: newStoreID(), first: epochAt(time.Now())}
	return d.writeStore()
}

func (d *dataDir) writeStore() error {
	s := d.store
	r := record{
		{fieldCluster, d.cluster},
		{fieldNode, string(d.node)},
		{fieldStore, string(s.name)},
		{fieldFirst, strconv.FormatUint(uint64(s.first), 10)},
	}
	if s.admitted {
		r = append(r, field{fieldAdmitted, yes}, field{fieldBegan, strconv.FormatUint(s.began, 10)})
	}
	if s.denied {
		r = append(r, field{fieldDenied, yes})
	}
	return writeSealedTwice(d.path, nodeFile, r)
}

// readStore reads what the node's file says of the store. One without a name is older than
// such names.
func (d *dataDir) readStore(r record) (store, error) {
	s := store{name: id.StoreID(r.get(fieldStore)), admitted: r.get(fieldAdmitted) == yes, denied: r.get(fieldDenied) == yes}
	if s.name == "" {
		return s, nil
	}
	number := func(key string) (uint64, error) {
		if key == fieldBegan && !s.admitted {
			return 0, nil
		}
		return strconv.ParseUint(r.get(key), 10, 64)
	}
	first, err := number(fieldFirst)
	began, err2 := number(fieldBegan)
	if err := errors.Join(err, err2); err != nil {
		return s, fmt.Errorf("cluster: file %q in %q: %w", nodeFile, d.path, err)
	}
	s.first, s.began = id.Epoch(first), began
	return s, nil
}

// settleStore names the store of a directory from before stores had names, and writes both
// copies of the node's file again if they differ: the one that is read must never be the one
// that knows less.
func (d *dataDir) settleStore() error {
	a, errA := readSealedCopy(d.path, nodeFile, 0)
	b, errB := readSealedCopy(d.path, nodeFile, 1)
	same := errA == nil && errB == nil && string(seal(a)) == string(seal(b))
	if same && d.store.name != "" {
		return nil
	}
	if d.store.name == "" {
		state, err := d.catalogStored()
		if err != nil {
			return err
		}
		d.store = store{name: newStoreID(), admitted: state.Last > 0}
	}
	return d.writeStore()
}

// admit notes that a catalog has taken the store.
func (d *dataDir) admit() error {
	if d.store.admitted {
		return nil
	}
	d.store.admitted = true
	return d.writeStore()
}

// deny notes that the node was refused with its store.
func (d *dataDir) deny() error {
	if d.store.denied {
		return nil
	}
	d.store.denied = true
	return d.writeStore()
}

// beginCatalog notes from which index on the store's member of the catalog group may be
// empty. It comes before the member takes part.
func (d *dataDir) beginCatalog(index uint64) error {
	d.store.admitted, d.store.began = true, index
	return d.writeStore()
}

// catalogStored reads how far the catalog's member on disk goes; nothing if there is none.
func (d *dataDir) catalogStored() (e raftfsm.Extent, err error) {
	path := filepath.Join(d.catalog(), catalogLog)
	if !exists(path) {
		return e, nil
	}
	log, err := raftfsm.OpenBolt(path)
	if err != nil {
		return e, fmt.Errorf("cluster: opening the catalog's log: %w", err)
	}
	snapshots, err := raftfsm.OpenSnapshots(filepath.Join(d.catalog(), snapshotsDir), log)
	if err == nil {
		e, err = raftfsm.ExtentOf(log, snapshots)
	}
	return e, errors.Join(err, log.Close())
}
