package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

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
	catalogDir   = "catalog"
	catalogLog   = "log.db"
	queuesDir    = "queues"
	walDir       = "wal"
	dirMode      = 0o700
	fileMode     = 0o600
	fieldCluster = "cluster"
	fieldNode    = "node"
	fieldEpoch   = "epoch"
)

// dataDir is the node's directory, locked for this process. Its methods belong to one
// goroutine, that of Start and then that of the founding; those that change the store, to
// that of the registration.
type dataDir struct {
	path    string
	cluster string // whose node it is
	node    id.NodeID
	lock    *os.File
	store   store

	mark mark // the newest; that of keepMark once it runs
	// catalogFound is how far the catalog's member went at this start, and catalogWhole tells
	// that it went as far as the mark says.
	catalogFound raftfsm.Extent
	catalogWhole bool
}

// openDataDir creates the directory if need be, locks it, and makes sure that it
// belongs to this node of this cluster.
func openDataDir(path, cluster string, node id.NodeID) (*dataDir, error) {
	if err := makeDurably(path); err != nil {
		return nil, fmt.Errorf("cluster: making data directory %q: %w", path, err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	d := &dataDir{path: path, cluster: cluster, node: node, lock: lock}
	if err := d.makeRoom(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if err := errors.Join(d.own(), d.prepare(), d.refuseBolt()); err != nil {
		return nil, errors.Join(err, d.close())
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
	return syncDir(parent)
}

// roomToStart is what a start writes before it has the log, by far.
const roomToStart = 1 << 20

// makeRoom gives up the log's reserve if the disk has not even room to start: then nobody
// could consume.
func (d *dataDir) makeRoom() error {
	path := filepath.Join(d.path, walDir)
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
func (d *dataDir) own() error {
	r, err := readSealed(d.path, nodeFile)
	if errors.Is(err, fs.ErrNotExist) {
		return d.begin()
	}
	if err != nil {
		return err
	}
	if have := r.get(fieldCluster); have != d.cluster {
		return fmt.Errorf("cluster: data directory %q belongs to cluster %q, this node is of cluster %q: "+
			"correct the cluster's name, or give this node a directory of its own", d.path, have, d.cluster)
	}
	if have := r.get(fieldNode); have != string(d.node) {
		return fmt.Errorf("cluster: data directory %q belongs to node %q, this is node %q: "+
			"correct the node's id, or give this node a directory of its own", d.path, have, d.node)
	}
	if d.store, err = d.readStore(r); err != nil {
		return err
	}
	return d.settleStore()
}

func (d *dataDir) prepare() error {
	for _, sub := range []string{catalogDir, queuesDir} {
		if err := os.MkdirAll(filepath.Join(d.path, sub), dirMode); err != nil {
			return fmt.Errorf("cluster: making a part of the data directory: %w", err)
		}
	}
	return syncDir(d.path)
}

// boltLog is the file in which a queue had its log with `storage.queue_log: bolt`, up to
// version 0.9.
const boltLog = "log.db"

// refuseBolt refuses a directory with queues whose log this build cannot read: without it
// their members would vote as if they had promised nothing.
func (d *dataDir) refuseBolt() error {
	files, err := filepath.Glob(filepath.Join(d.path, queuesDir, "q*", boltLog))
	if err != nil || len(files) == 0 {
		return err
	}
	return fmt.Errorf("cluster: data directory %q has %d queues that began with `storage.queue_log: bolt`, the first in %q, and this version reads "+
		"the node's one log alone: start version 0.9 on it with `storage.queue_log: shared`, and build each of them anew there: "+
		"quoratectl queues replace-member QUEUE %s %s; then start this version", d.path, len(files), files[0], d.node, d.node)
}

// nextEpoch returns an epoch that this directory has never handed out, durably.
//
// The two copies are written in turn. If the newer is torn, the older is one behind, so
// the next epoch skips one.
func (d *dataDir) nextEpoch() (id.Epoch, error) {
	var newest uint64
	var faults []error
	missing := 0
	for copyNo := range sealedCopies {
		r, err := readSealedCopy(d.path, epochFile, copyNo)
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		var n uint64
		if err == nil {
			n, err = strconv.ParseUint(r.get(fieldEpoch), 10, 64)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		newest = max(newest, n)
	}
	if newest == 0 && len(faults) > 0 {
		return 0, fmt.Errorf("%w: no copy of file %q in %q is whole: restore one from a backup, or give up what the directory holds "+
			"(docs/operations.md, \"Damaged files\"): %w", ErrDamaged, epochFile, d.path, errors.Join(faults...))
	}
	first := max(uint64(d.store.first), 1)
	next := max(newest+1, first)
	if len(faults) > 0 || missing == 1 && newest > first {
		next++
	}
	r, copyNo := record{{fieldEpoch, strconv.FormatUint(next, 10)}}, int(next%sealedCopies)
	err := writeSealed(d.path, epochFile, copyNo, r)
	if errors.Is(err, syscall.ENOSPC) && len(faults) == 0 {
		err = overwriteSealed(d.path, epochFile, copyNo, r) // the older one
	}
	if err == nil && len(faults) > 0 { // this one went where the whole copy was
		err = writeSealed(d.path, epochFile, 1-copyNo, record{{fieldEpoch, strconv.FormatUint(next-1, 10)}})
	}
	return id.Epoch(next), err
}

// mend repairs what is stored twice, and tells of it.
func (d *dataDir) mend(log *slog.Logger) {
	for _, name := range []string{nodeFile, promiseFile, refusedFile} {
		mended, err := mendSealed(d.path, name)
		for _, path := range mended {
			log.Error("a file was damaged or missing: it was written again from its other copy; look at the disk", "file", path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Error("a file cannot be repaired from its other copy", "file", filepath.Join(d.path, name), "error", err)
		}
	}
}

// promise is the founding that this node has agreed to.
type promise struct {
	founder   id.NodeID   // "": none
	round     uint64      // of the founder's proposals
	members   []id.NodeID // sorted
	proposals uint64      // made by this node so far
}

const (
	fieldFounder   = "founder"
	fieldRound     = "round"
	fieldMember    = "member"
	fieldProposals = "proposals"
)

func (d *dataDir) readPromise() (promise, error) {
	r, err := readSealed(d.path, promiseFile)
	if errors.Is(err, fs.ErrNotExist) {
		return promise{}, nil
	}
	if err != nil {
		return promise{}, err
	}
	round, err := strconv.ParseUint(r.get(fieldRound), 10, 64)
	proposals, err2 := strconv.ParseUint(r.get(fieldProposals), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return promise{}, fmt.Errorf("cluster: file %q in %q: %w", promiseFile, d.path, err)
	}
	p := promise{founder: id.NodeID(r.get(fieldFounder)), round: round, proposals: proposals}
	for _, f := range r {
		if f.key == fieldMember {
			p.members = append(p.members, id.NodeID(f.value))
		}
	}
	return p, nil
}

func (d *dataDir) writePromise(p promise) error {
	r := record{
		{fieldFounder, string(p.founder)},
		{fieldRound, strconv.FormatUint(p.round, 10)},
		{fieldProposals, strconv.FormatUint(p.proposals, 10)},
	}
	for _, m := range p.members {
		r = append(r, field{fieldMember, string(m)})
	}
	return writeSealedTwice(d.path, promiseFile, r)
}

func (d *dataDir) catalog() string { return filepath.Join(d.path, catalogDir) }

func (d *dataDir) queue(q id.QueueUID) string { return filepath.Join(d.path, queuesDir, q.String()) }

// queues returns the queues of which something is stored.
func (d *dataDir) queues() ([]id.QueueUID, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, queuesDir))
	if err != nil {
		return nil, fmt.Errorf("cluster: reading the queues' directory: %w", err)
	}
	var uids []id.QueueUID
	for _, e := range entries {
		text, named := strings.CutPrefix(e.Name(), "q")
		n, err := strconv.ParseUint(text, 10, 64)
		if named && err == nil {
			uids = append(uids, id.QueueUID(n))
		}
	}
	return uids, nil
}

// hasQueue tells whether something of a queue is stored.
func (d *dataDir) hasQueue(q id.QueueUID) bool {
	return exists(d.queue(q))
}

// removeQueue deletes what a queue has on disk. UIDs are never used again, so that it
// does no harm if a crash brings a part of it back.
func (d *dataDir) removeQueue(q id.QueueUID) error {
	if !d.hasQueue(q) {
		return nil
	}
	if err := os.RemoveAll(d.queue(q)); err != nil {
		return fmt.Errorf("cluster: deleting the files of queue %s: %w", q, err)
	}
	return syncDir(filepath.Join(d.path, queuesDir))
}

// close releases the lock.
func (d *dataDir) close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("cluster: releasing data directory %q: %w", d.path, err)
	}
	return nil
}
