package raftfsm

import (
	"iter"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal"
)

// Storage keeps one group's log, term and vote. It is the seam behind which that of a queue is
// a part of the node's shared log, and the catalog's a bolt file.
//
// Set and StoreRetained return only when what they wrote, and all that was written before,
// survives a power cut. StoreLogs, DeleteRange, Retain and SetUint64 may return as soon as
// it is in memory, see Notify. What was written survives in its order: an entry never
// without the term that was stored before it.
// After a failed write every further write must fail too: a half-known state on disk is
// not written over. Methods may be called concurrently as raft.LogStore and raft.StableStore demand;
// Entry also concurrently with all others.
type Storage interface {
	raft.LogStore
	raft.StableStore
	// DeleteRange of a prefix, and of the whole log, only moves the first index: Entry
	// finds the entries until Retain, or until others take their indexes. A suffix is
	// deleted for good.

	// Entry reads an entry that StoreRetained has stored, or else one that is in the log
	// or that the log has dropped but whose bodies are still retained. raft.ErrLogNotFound
	// if it is gone.
	Entry(index uint64, out *raft.Log) error
	// StoreRetained stores entries as a snapshot from the leader brings them, whatever the
	// log has at their indexes.
	StoreRetained(entries []*raft.Log) error
	// DropRetained forgets the entries of StoreRetained above an index: the snapshot that
	// brought them did not become this member's.
	DropRetained(above uint64) error
	// Retain forgets every entry up to an index that is below the first one and that live
	// does not name, and every entry of StoreRetained up to it likewise. Live yields
	// ascending ranges of indexes, both ends included: what the durable snapshot of that
	// index refers to. Retain ranges over it more than once.
	Retain(upTo uint64, live iter.Seq2[uint64, uint64]) error
	// Newest counts the newest of the log's entries up to an index, as many as come to no more
	// than so many bytes.
	Newest(upTo uint64, most int64) (entries uint64, bytes int64)
	Close() error

	// Appended returns the position behind the newest of all that was written. Positions
	// rise and are in the order of the writes.
	Appended() wal.Position
	// Durable returns up to which position all survives a power cut.
	Durable() wal.Position
	// Notify lets f be told when Durable has risen past something that was written, or
	// of the error for which it never will. f must return soon. It returns false, and f
	// is never told, if every write returns only when it survives a power cut.
	Notify(f func(wal.Position, error)) bool
	// Sync returns when everything that was written survives a power cut.
	Sync() error
}

// Synchronous is a part of a Storage whose writes return only when they are durable.
type Synchronous struct{}

// Appended implements Storage.
func (Synchronous) Appended() wal.Position { return 0 }

// Durable implements Storage.
func (Synchronous) Durable() wal.Position { return 0 }

// Notify implements Storage.
func (Synchronous) Notify(func(wal.Position, error)) bool { return false }

// Sync implements Storage.
func (Synchronous) Sync() error { return nil }
