package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

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
	d.mark = readMark(d.path)
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
	if d.store, err = parseStore(r); err != nil {
		return fmt.Errorf("cluster: file %q in %q: %w", nodeFile, d.path, err)
	}
	return d.completeStore()
}

// completeStore names the store of a directory from before stores had names, and writes both
// copies of the node's file again if they differ: the one that is read must never be the one
// that knows less.
func (d *Dir) completeStore() error {
	a, errA := sealed.ReadCopy(d.path, nodeFile, 0)
	b, errB := sealed.ReadCopy(d.path, nodeFile, 1)
	same := errA == nil && errB == nil && slices.Equal(a, b)
	if same && d.store.Name != "" {
		return nil
	}
	if d.store.Name == "" {
		state, err := d.catalogStored()
		if err != nil {
			return err
		}
		d.store = Store{Name: newStoreID(), Admitted: state.Last > 0}
	}
	return d.writeStore()
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

// logMended reports a copy of a file that was written again: only a faulty disk or a crash between
// two writes makes that necessary. details are further attributes of the log line.
func logMended(log *slog.Logger, path string, details ...any) {
	log.Error("a file was damaged or missing: it was written again from its other copy; look at the disk",
		append([]any{"file", path}, details...)...)
}

// Mend repairs what is stored twice, and reports it.
func (d *Dir) Mend(log *slog.Logger) {
	for _, name := range []string{nodeFile, promiseFile, refusedFile} {
		mended, err := sealed.Mend(d.path, name)
		for _, path := range mended {
			logMended(log, path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Error("a file cannot be repaired from its other copy", "file", filepath.Join(d.path, name), "error", err)
		}
	}
}
