package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/quorate/quorate/id"
)

// Files of the data directory (docs/formats/datadir.md). Those that are needed to boot
// exist twice, so that one torn copy costs nothing.
const (
	lockFile     = "lock"
	nodeFile     = "node"
	epochFile    = "epoch"
	promiseFile  = "founding"
	catalogDir   = "catalog"
	queuesDir    = "queues"
	walDir       = "wal"
	dirMode      = 0o700
	fileMode     = 0o600
	fieldCluster = "cluster"
	fieldNode    = "node"
	fieldEpoch   = "epoch"
)

// dataDir is the node's directory, locked for this process. Its methods belong to one
// goroutine, that of Start and then that of the founding.
type dataDir struct {
	path string
	lock *os.File
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
	d := &dataDir{path: path, lock: lock}
	if err := errors.Join(d.own(cluster, node), d.prepare()); err != nil {
		return nil, errors.Join(err, d.close())
	}
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

// own writes the node's name at the first start and compares it later.
func (d *dataDir) own(cluster string, node id.NodeID) error {
	r, err := readSealed(d.path, nodeFile)
	if errors.Is(err, fs.ErrNotExist) {
		return writeSealedTwice(d.path, nodeFile, record{{fieldCluster, cluster}, {fieldNode, string(node)}})
	}
	if err != nil {
		return err
	}
	if have := r.get(fieldCluster); have != cluster {
		return fmt.Errorf("cluster: data directory %q belongs to cluster %q, this node is of cluster %q: "+
			"correct the cluster's name, or give this node a directory of its own", d.path, have, cluster)
	}
	if have := r.get(fieldNode); have != string(node) {
		return fmt.Errorf("cluster: data directory %q belongs to node %q, this is node %q: "+
			"correct the node's id, or give this node a directory of its own", d.path, have, node)
	}
	return nil
}

func (d *dataDir) prepare() error {
	for _, sub := range []string{catalogDir, queuesDir} {
		if err := os.MkdirAll(filepath.Join(d.path, sub), dirMode); err != nil {
			return fmt.Errorf("cluster: making a part of the data directory: %w", err)
		}
	}
	return syncDir(d.path)
}

// firstEpoch is that of a new directory.
const firstEpoch id.Epoch = 1

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
		return 0, fmt.Errorf("cluster: the epoch of data directory %q is lost; restore its files %q from a backup, "+
			"or empty the directory so that the node joins anew under another id: %w", d.path, epochFile, errors.Join(faults...))
	}
	next := newest + 1
	if len(faults) > 0 || missing == 1 && newest > 1 {
		next++
	}
	err := writeSealed(d.path, epochFile, int(next%sealedCopies), record{{fieldEpoch, strconv.FormatUint(next, 10)}})
	return id.Epoch(next), err
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
