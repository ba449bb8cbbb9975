// Package datadir is a node's data directory: its lock, whose it is, and what a start has to
// know before anything runs: the epoch, the store (RE-9), the founding that the node has agreed
// to, how far its logs went, and where its groups have their files. It needs nothing but a disk;
// the log that groups share is of package storage. docs/formats/datadir.md has the files.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
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

// Dir is the node's directory, locked for this process. What changes a Dir has one caller at a
// time: who starts the node; then who founds, for the promise; who registers, for the store; and
// who keeps the mark. What is about a queue may be called concurrently for different ones.
type Dir struct {
	path    string
	cluster string // whose node it is
	node    id.NodeID
	lock    *os.File
	store   Store

	mark Mark // the newest
	// catalogFound is how far the catalog's member went at this start, and catalogWhole tells
	// that it went as far as the mark says.
	catalogFound raftfsm.Extent
	catalogWhole bool
}

// Open creates the directory if need be, locks it, and makes sure that it
// belongs to this node of this cluster.
func Open(path, cluster string, node id.NodeID) (*Dir, error) {
	if err := makeDurably(path); err != nil {
		return nil, fmt.Errorf("cluster: making data directory %q: %w", path, err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, cluster: cluster, node: node, lock: lock}
	if err := d.makeRoom(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := errors.Join(d.own(), d.prepare(), d.refuseBolt()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.mark = d.readMark()
	return d, nil
}

// makeDurably makes a directory and those above it that are missing, so that a power cut
// does not take them away with what was stored in them since.
func makeDurably(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if err := makeDurably(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return sealed.SyncDir(parent)
}

// roomToStart is what a start writes before it has the log, by far.
const roomToStart = 1 << 20

// makeRoom gives up the log's reserve if the disk has not even room to start: then nobody
// could consume.
func (d *Dir) makeRoom() error {
	path := d.Log()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dir, err := vfs.OS(path)
	if err == nil {
		err = wal.GiveUpReserve(dir, roomToStart)
	}
	if err != nil {
		return fmt.Errorf("cluster: making room in %q for the start: %w", path, err)
	}
	return nil
}

// own names the directory's store at the first start, and compares cluster and node later.
func (d *Dir) own() error {
	r, err := sealed.Read(d.path, nodeFile)
	if errors.Is(err, fs.ErrNotExist) {
		return d.begin()
	}
	if err != nil {
		return err
	}
	if have := r.Get(fieldCluster); have != d.cluster {
		return fmt.Errorf("cluster: data directory %q belongs to cluster %q, this node is of cluster %q: "+
			"correct the cluster's name, or give this node a directory of its own", d.path, have, d.cluster)
	}
	if have := r.Get(fieldNode); have != string(d.node) {
		return fmt.Errorf("cluster: data directory %q belongs to node %q, this is node %q: "+
			"correct the node's id, or give this node a directory of its own", d.path, have, d.node)
	}
	if d.store, err = d.readStore(r); err != nil {
		return err
	}
	return d.settleStore()
}

// prepare makes the parts that are missing, and makes them durable.
func (d *Dir) prepare() error {
	for _, sub := range []string{CatalogDir, QueuesDir} {
		if err := os.MkdirAll(filepath.Join(d.path, sub), dirMode); err != nil {
			return fmt.Errorf("cluster: making a part of the data directory: %w", err)
		}
	}
	return sealed.SyncDir(d.path)
}

// boltLog is the file in which a queue had its log with `storage.queue_log: bolt`, up to
// version 0.9.
const boltLog = "log.db"

// refuseBolt refuses a directory with queues whose log this build cannot read: without it
// their members would vote as if they had promised nothing.
func (d *Dir) refuseBolt() error {
	files, err := filepath.Glob(filepath.Join(d.path, QueuesDir, "q*", boltLog))
	if err != nil || len(files) == 0 {
		return err
	}
	return fmt.Errorf("cluster: data directory %q has %d queues that began with `storage.queue_log: bolt`, the first in %q, and this version reads "+
		"the node's one log alone: start version 0.9 on it with `storage.queue_log: shared`, and build each of them anew there: "+
		"quoratectl queues replace-member QUEUE %s %s; then start this version", d.path, len(files), files[0], d.node, d.node)
}

// Mend repairs what is stored twice, and reports it.
func (d *Dir) Mend(log *slog.Logger) {
	for _, name := range []string{nodeFile, promiseFile, refusedFile} {
		mended, err := sealed.Mend(d.path, name)
		for _, path := range mended {
			log.Error("a file was damaged or missing: it was written again from its other copy; look at the disk", "file", path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Error("a file cannot be repaired from its other copy", "file", filepath.Join(d.path, name), "error", err)
		}
	}
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
