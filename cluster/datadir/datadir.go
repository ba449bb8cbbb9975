// Package datadir is a node's data directory: its lock, its owner, and what a start has to know before anything runs:
// the epoch, the store (RE-9), the founding to which the node has agreed, how far its logs reached, and where its
// groups have their files. It needs nothing but a disk; the log that groups share is in package storage.
// docs/formats/datadir.md has the files.
package datadir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// Files of the data directory (docs/formats/datadir.md). Those that are needed to boot
// exist twice, so that one torn copy costs nothing.
const (
	lockFile     = "lock"
	nodeFile     = "node"
	epochFile    = "epoch"
	promiseFile  = "founding"
	dirMode      = 0o700
	fileMode     = 0o600
	fieldCluster = "cluster"
	fieldNode    = "node"
	fieldEpoch   = "epoch"
)

// Parts of the data directory that others keep.
const (
	CatalogDir  = "catalog"      // of the catalog's member
	CatalogLog  = "log.db"       // within CatalogDir
	LostCatalog = "catalog.lost" // what was CatalogDir when its member was found short
	QueuesDir   = "queues"       // a directory for each queue that has files
	LogDir      = "wal"          // of the log that groups share
	// SnapshotsDir is where a member keeps its snapshots, in the directory of its group.
	SnapshotsDir = "snapshots"
)

// Dir is the node's directory, locked for this process. Methods that change a Dir have one caller at a time: at first
// the node's start; later the founding, for the promise; the registration, for the store; and the keeper of the mark.
// Methods about a queue may be called concurrently for different queues.
type Dir struct {
	path    string
	cluster string // whose node it is
	node    id.NodeID
	lock    *os.File
	store   Store

	mark Mark // the newest
	// catalogFound is how far the catalog's stored log reached at this start, and catalogWhole whether it reached the
	// mark.
	catalogFound raftfsm.Extent
	catalogWhole bool
}

// Path returns where the directory is.
func (d *Dir) Path() string { return d.path }

// Catalog returns the directory of the catalog's member.
func (d *Dir) Catalog() string { return filepath.Join(d.path, CatalogDir) }

// Log returns the directory of the log that groups share, whether it is there or not.
func (d *Dir) Log() string { return filepath.Join(d.path, LogDir) }

// MakeLog makes the directory of the log that groups share.
func (d *Dir) MakeLog() error {
	if err := os.MkdirAll(d.Log(), dirMode); err != nil {
		return fmt.Errorf("cluster: making the log's directory: %w", err)
	}
	return sealed.SyncDir(d.path)
}

// Close releases the lock.
func (d *Dir) Close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("cluster: releasing data directory %q: %w", d.path, err)
	}
	return nil
}

// Mark returns the newest mark.
func (d *Dir) Mark() Mark { return d.mark }

// SetMark writes a mark if it has changed.
func (d *Dir) SetMark(m Mark) error {
	if m.number = d.mark.number; m == d.mark {
		return nil
	}
	m.number++
	if err := m.write(d.path); err != nil {
		return err
	}
	d.mark = m
	return nil
}
