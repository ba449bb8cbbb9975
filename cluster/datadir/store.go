package datadir

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// Store identifies the life of a data directory (RE-9): docs/adr/0017-stores.md.
type Store struct {
	Name id.StoreID
	// First is the epoch of its first start: no earlier store of the node had one as high. 0: the store is from a
	// build that counted from 1.
	First id.Epoch
	// Admitted reports that a catalog has taken the store as that of its node. Until then it is
	// fresh: it has promised nothing to anybody.
	Admitted bool
	// Began is the index of the catalog from which on the store's member of the catalog group
	// may have begun with nothing. Whoever finds it empty at a start asks for a newer one.
	Began uint64
	// Base is that of the member of the catalog group that began so; the zero value if it had none, as with a founder's.
	Base raftfsm.Base
	// Denied reports that the node was refused with it before the cluster knew stores, so that an
	// earlier registration of the node was not its own.
	Denied bool
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

// newStoreID is by chance, so that two stores never have one name.
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

// addTo adds the store to what the node's file says.
func (s Store) addTo(r sealed.Record) sealed.Record {
	r = r.With(fieldStore, string(s.Name)).With(fieldFirst, strconv.FormatUint(uint64(s.First), 10))
	if s.Admitted {
		r = addBase(r.With(fieldAdmitted, yes).With(fieldBegan, strconv.FormatUint(s.Began, 10)), s.Base)
	}
	if s.Denied {
		r = r.With(fieldDenied, yes)
	}
	return r
}

// parseStore reads the store from the node's file. A store without a name is older than such names.
func parseStore(r sealed.Record) (Store, error) {
	s := Store{Name: id.StoreID(r.Get(fieldStore)), Admitted: r.Get(fieldAdmitted) == yes, Denied: r.Get(fieldDenied) == yes}
	if s.Name == "" {
		return s, nil
	}
	number := func(key string) (uint64, error) {
		if key == fieldBegan && !s.Admitted {
			return 0, nil
		}
		return strconv.ParseUint(r.Get(key), 10, 64)
	}
	first, err := number(fieldFirst)
	began, err2 := number(fieldBegan)
	base, err3 := parseBase(r)
	if err := errors.Join(err, err2, err3); err != nil {
		return s, err
	}
	s.Base = base
	s.First, s.Began = id.Epoch(first), began
	return s, nil
}
