package raftfsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"sync"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

const (
	// retainChunkBytes is how many bytes of bodies one transaction writes.
	retainChunkBytes = 8 << 20
	retainedBucket   = "entries"
	retainedHead     = 8 // the entry's term in front of its bytes
)

// retained keeps entries that the log has dropped and whose bodies are still referred to,
// in a bolt file that is created when the first one comes.
type retained struct {
	path string

	mu sync.RWMutex // guards db
	db *bbolt.DB    // nil until there is a file
}

func openRetained(path string) (*retained, error) {
	r := &retained{path: path}
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return r, nil
		}
		return nil, fmt.Errorf("raftfsm: %w", err)
	}
	return r, r.create()
}

func (r *retained) create() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.db != nil {
		return nil
	}
	err := checkRetained(r.path)
	var db *bbolt.DB
	if err == nil {
		err = mapped(func() (err error) {
			db, err = bbolt.Open(r.path, 0o600, boltOptions(nil))
			return err
		})
	}
	if err != nil {
		return boltOpenError(r.path, err)
	}
	r.db = db
	return nil
}

func (r *retained) store() *bbolt.DB {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.db
}

func (r *retained) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.db == nil {
		return nil
	}
	return mapped(r.db.Close)
}

func indexKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

// view runs a transaction that reads.
func view(db *bbolt.DB, f func(*bbolt.Tx) error) error {
	return mapped(func() error { return db.View(f) })
}

// put stores entries durably in one transaction.
func (r *retained) put(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	if err := r.create(); err != nil {
		return err
	}
	return r.store().Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(retainedBucket))
		if err != nil {
			return err
		}
		b.FillPercent = 0.9 // keys mostly ascend
		for _, l := range entries {
			v := make([]byte, 0, retainedHead+len(l.Data))
			v = append(binary.LittleEndian.AppendUint64(v, l.Term), l.Data...)
			if err := b.Put(indexKey(l.Index), v); err != nil {
				return err
			}
		}
		return nil
	})
}

// get reads an entry; raft.ErrLogNotFound if it is not there.
func (r *retained) get(index uint64, out *raft.Log) error {
	db := r.store()
	if db == nil {
		return raft.ErrLogNotFound
	}
	return view(db, func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(retainedBucket))
		if b == nil {
			return raft.ErrLogNotFound
		}
		v := b.Get(indexKey(index))
		if v == nil {
			return raft.ErrLogNotFound
		}
		if len(v) < retainedHead {
			return fmt.Errorf("raftfsm: %s: entry %d: %w: %d bytes", r.path, index, errCorrupt, len(v))
		}
		*out = raft.Log{
			Index: index, Term: binary.LittleEndian.Uint64(v), Type: raft.LogCommand,
			Data: append([]byte(nil), v[retainedHead:]...),
		}
		return nil
	})
}

// drop deletes every entry above an index.
func (r *retained) drop(above uint64) error {
	if above == ^uint64(0) {
		return nil
	}
	return r.remove(func(index uint64) bool { return index > above })
}

// keep deletes every entry up to an index that live does not name.
func (r *retained) keep(upTo uint64, live iter.Seq2[uint64, uint64]) error {
	next, stop := iter.Pull2(live)
	defer stop()
	from, to, more := next()
	return r.remove(func(index uint64) bool {
		for more && to < index {
			from, to, more = next()
		}
		return index <= upTo && (!more || from > index)
	})
}

// remove deletes the entries that are dead, which is asked with ascending indexes.
func (r *retained) remove(isDead func(index uint64) bool) error {
	db := r.store()
	if db == nil {
		return nil
	}
	dead, err := r.find(db, isDead)
	if err != nil {
		return err
	}
	for len(dead) > 0 {
		n := min(len(dead), deleteChunk)
		err := db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(retainedBucket))
			for _, index := range dead[:n] {
				if err := b.Delete(indexKey(index)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		dead = dead[n:]
	}
	return nil
}

// find returns the indexes of entries that are dead.
func (r *retained) find(db *bbolt.DB, isDead func(index uint64) bool) ([]uint64, error) {
	var dead []uint64
	err := view(db, func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(retainedBucket))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			if len(k) != 8 {
				return fmt.Errorf("raftfsm: %s: %w: key of %d bytes", r.path, errCorrupt, len(k))
			}
			index := binary.BigEndian.Uint64(k)
			if isDead(index) {
				dead = append(dead, index)
			}
		}
		return nil
	})
	return dead, err
}
