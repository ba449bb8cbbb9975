package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/quorate/quorate/internal/phase"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

// mark is how far what this node has stored went when it was last looked at. It is kept beside
// the logs, so that a start notices when they end before it: what is missing was acknowledged
// (RE-9). Numbers rise from mark to mark.
type mark struct {
	number  uint64
	log     wal.Mark
	catalog raftfsm.Extent // its term, and the last entry that is known to be committed
	voters  uint64         // of the catalog's group; 0: not known
}

const (
	markFile    = "mark"
	fieldNumber = "number"
	fieldLog    = "log"
	fieldSeg    = "segment"
	fieldOffset = "offset"
	fieldTerm   = "catalog-term"
	fieldLast   = "catalog-last"
	fieldVoters = "catalog-voters"
	// markEvery is how often a mark is written while the logs grow: what is lost of the time
	// since is not noticed.
	markEvery = time.Second
	// lostCatalog is where the files of a catalog's member are kept that was found short.
	lostCatalog = "catalog.lost"
)

// readMark returns the newest mark that is whole; the zero mark if there is none.
func (d *dataDir) readMark() (newest mark) {
	for copyNo := range sealedCopies {
		r, err := readSealedCopy(d.path, markFile, copyNo)
		if err != nil {
			continue // torn by the crash, or not there yet: the other one, or none, says less
		}
		if m, err := parseMark(r); err == nil && m.number > newest.number {
			newest = m
		}
	}
	return newest
}

func parseMark(r record) (m mark, err error) {
	read := func(key string, bits int) uint64 {
		n, fault := strconv.ParseUint(r.get(key), 10, bits)
		err = errors.Join(err, fault)
		return n
	}
	m.number = read(fieldNumber, 64)
	m.log = wal.Mark{Log: read(fieldLog, 64), Segment: uint32(read(fieldSeg, 32)), Offset: uint32(read(fieldOffset, 32))}
	m.catalog = raftfsm.Extent{Term: read(fieldTerm, 64), Last: read(fieldLast, 64)}
	if r.get(fieldVoters) != "" {
		m.voters = read(fieldVoters, 64)
	}
	return m, err
}

func (m mark) record() record {
	// All marks have one length, so that a copy is written over where it stands.
	text := func(n uint64) string { return fmt.Sprintf("%020d", n) }
	return record{
		{fieldNumber, text(m.number)},
		{fieldLog, text(m.log.Log)},
		{fieldSeg, text(uint64(m.log.Segment))},
		{fieldOffset, text(uint64(m.log.Offset))},
		{fieldTerm, text(m.catalog.Term)},
		{fieldLast, text(m.catalog.Last)},
		{fieldVoters, text(m.voters)},
	}
}

// writeMark replaces the older copy. One that is there is written over, which takes one sync of
// a block and no change of names: a torn one leaves the other, which says a little less.
func (d *dataDir) writeMark(m mark) error {
	copyNo := int(m.number % sealedCopies)
	f, err := os.OpenFile(sealedPath(d.path, markFile, copyNo), os.O_WRONLY, fileMode)
	if errors.Is(err, fs.ErrNotExist) {
		return writeSealed(d.path, markFile, copyNo, m.record())
	}
	if err == nil {
		b := seal(m.record())
		_, err = f.WriteAt(b, 0)
		err = errors.Join(err, f.Truncate(int64(len(b))), f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("cluster: writing %q: %w", sealedPath(d.path, markFile, copyNo), err)
	}
	return nil
}

// checkCatalog compares what the catalog's member has stored with the mark. A member that is
// short or damaged is set aside: nothing must act with it. fault says why it is not whole.
func (d *dataDir) checkCatalog() (whole bool, fault, err error) {
	d.catalogFound, fault = d.catalogStored()
	if fault != nil && !raftfsm.Damaged(fault) {
		return false, nil, fault
	}
	found, marked := d.catalogFound, d.mark.catalog
	d.catalogWhole = fault == nil && found.Last >= marked.Last && found.Term >= marked.Term
	switch {
	case d.catalogWhole:
		return !d.store.admitted || found.Last > 0, nil, nil
	case fault == nil:
		fault = fmt.Errorf("cluster: %q ends with entry %d of term %d, and had entry %d and term %d", d.catalog(), found.Last, found.Term, marked.Last, marked.Term)
	}
	return false, fault, d.giveUpCatalog(fault)
}

// giveUpCatalog sets what the catalog's member has stored aside, unless there is nobody from
// whom it could be built anew.
func (d *dataDir) giveUpCatalog(fault error) error {
	if d.mark.voters == 1 {
		return fmt.Errorf("%w: this node alone has the catalog, and nobody can restore it; it was left as it is: restore a backup of the whole "+
			"directory, or see docs/operations.md, \"Damaged files\": %w", ErrDamaged, fault)
	}
	d.catalogFound, d.catalogWhole = raftfsm.Extent{}, false
	if exists(filepath.Join(d.catalog(), catalogLog)) || hasSnapshot(d.catalog()) { // else that was done before
		aside := filepath.Join(d.path, lostCatalog)
		err := errors.Join(os.RemoveAll(aside), os.Rename(d.catalog(), aside), os.Mkdir(d.catalog(), dirMode), syncDir(d.path))
		if err != nil {
			return fmt.Errorf("cluster: setting the lost member of the catalog aside: %w", err)
		}
	}
	if d.store.admitted {
		return nil
	}
	// It had just founded the cluster. What it has promised under this name it does not know.
	p, err := d.readPromise()
	if err == nil {
		err = d.writePromise(promise{proposals: p.proposals})
	}
	if err != nil {
		return err
	}
	return d.begin()
}

// keepMark writes marks while the logs grow.
func (c *Cluster) keepMark() {
	told := false
	for {
		if wait.For(c.ctx, phase.Wait(time.Now(), markEvery)) != nil {
			return
		}
		if err := c.writeMark(); err != nil && !told {
			c.log.Warn("cannot note how far the logs go: a start would not notice that their ends are lost", "error", err)
			told = true
		}
	}
}

// writeMark writes a mark if the logs have grown since the last one.
func (c *Cluster) writeMark() error {
	m := mark{number: c.dir.mark.number, log: c.shared.Mark(), catalog: c.dir.mark.catalog, voters: c.dir.mark.voters}
	if g := c.catalog; g != nil {
		s := g.group.Stats()
		m.catalog = raftfsm.Extent{Term: s.Term, Last: s.CommitIndex}
		if at, err := g.group.Configuration(); err == nil && len(at.Voters) > 0 {
			m.voters = uint64(len(at.Voters))
		}
	}
	if m == c.dir.mark || c.shared.Failed() != nil {
		return nil //nolint:nilerr // a log that has failed has told so
	}
	m.number++
	if err := c.dir.writeMark(m); err != nil {
		return err
	}
	c.dir.mark = m
	return nil
}
