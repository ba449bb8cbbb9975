// Package wal is the log that all groups of a node share: one stream of records in
// segments, one sync for everything that waits.
//
// A Log belongs to one directory and one process. GroupLog is a group's view of it: a raft.LogStore
// and raft.StableStore whose entries stay readable, after raft has dropped them, until nobody
// refers to their bodies (RE-8). DESIGN.md describes how it works. docs/formats/wal-segment.md
// describes the bytes on disk, and why a crash at any point loses no acknowledged data.
//
// Concurrency: all methods may be called concurrently. Log.mu guards everything in memory and is
// never held during I/O. Three goroutines run: the writer, the only one that appends records to
// files; the roller, which creates the files of segments and seals them; and the housekeeper, which
// frees and compacts segments and watches the free space.
//
// Errors: after the first failed write, sync or change of names, every later call fails with the
// same error. Nothing is retried, because after a failed sync nobody knows what is on disk. A
// CorruptError has the place of damaged bytes. ErrLost, ErrClosed and ErrDeleted are for callers to
// act on.
package wal

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/latency"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/wal/vfs"
)

// Errors that callers act on.
var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("wal: log is closed")
	// ErrDeleted is returned by a GroupLog whose group was deleted.
	ErrDeleted = errors.New("wal: group is deleted")
	// ErrLost is wrapped by the errors of a group that has lost records: it must not vote or lead
	// again on this node.
	ErrLost = errors.New("wal: group is lost on this node")
)

// Position is a place in the stream: the number of bytes appended before it since Open. Positions
// of all groups are comparable.
type Position uint64

// Log is a node's log. See the package comment.
type Log struct {
	c                Config
	dir              vfs.Dir
	files, rollFiles patient // dir, for the files of segments, of others and of the roller
	lock             io.Closer
	secret           uint64

	zeros     []byte        // the writer's
	parts     [][]byte      // the writer's, empty between two writes
	stop      chan struct{} // closed when the housekeeper is to end
	endWaits  chan struct{} // closed by EndWaits
	ended     sync.Once
	syncTimes latency.Histogram
	kick      chan struct{} // wakes the housekeeper
	opened    time.Time
	idle      *time.Timer    // sets quiet
	workers   sync.WaitGroup // writer, roller and housekeeper

	looking sync.Mutex // held while free space is asked for; taken before mu
	reserve reserve    // guarded by looking

	naming sync.Mutex // held while segments that were set aside get other names, and while the inventory is written; taken before mu
	aside  []string   // files of segments that were set aside; guarded by naming once the log is open

	mu          sync.Mutex // guards all that follows
	work        sync.Cond  // there is something to write, or closing
	space       sync.Cond  // pending has shrunk, or err or closing is set
	rolling     sync.Cond  // there is something for the roller, or it has done something, or err or written is set
	groups      map[id.GroupID]*GroupLog
	deleted     map[id.GroupID]loc // the records of their deletions
	segs        []*segment         // ascending
	bySeq       map[uint32]*segment
	head        *segment // takes records; nil until the first one
	ahead       *segment // follows the head, with or without a file yet; nil until the head is nearly full
	wanted      *segment // the writer waits for its file
	sealing     *ended   // to be sealed
	before      uint32   // where the records of the newest segment that is full end
	nextSeq     uint32
	spares      []spare
	cur         *batch      // takes records
	full        []*batch    // take no more and wait, oldest first
	inflight    *batch      // being written; nil if none
	buffers     [][]byte    // to be used again
	spareGroups []*GroupLog // empty, for the groups of the next batch
	appended    Position
	durable     atomic.Uint64 // a Position; written under mu
	freeAt      Position      // an emptied segment waits for this; 0 if none does
	pending     int64         // bytes appended and not durable
	synced      loc           // seg and off: where the durable part of the head ends
	tail        tailBudget
	room        Space
	unseen      int64     // bytes written since room was asked for
	began       time.Time // of the write that is under way; zero: none is
	pace        pace
	syncs       uint64
	carried     uint64    // bytes
	quiet       bool      // nothing has come for a while
	marked      loc       // seg and off: where the writer has written a mark
	gap         error     // records of unknown groups are lost
	gapAt       loc       // of the record that reports the gap, or its end
	unsure      bool      // a start has found it, and not notified all groups
	found       error     // this start has found one
	short       int       // calls that wait for a file descriptor
	rollShort   bool      // the roller is one of them
	excused     time.Time // when the roller's wait for one had held up the writer
	forRoller   bool      // the writer waits for the roller
	shortages   uint64    // and how often one had to
	closing     bool
	written     bool  // the writer has ended
	err         error // of the first failure
}

// spare is an emptied segment.
type spare struct {
	name string
	size int64
}

// put appends a record and counts it as live. The caller holds mu and has checked that the
// log is usable.
func (l *Log) put(r *record) loc {
	size := int64(r.size())
	if l.cur.bytes >= l.c.batchBytes {
		l.full = append(l.full, l.cur)
		l.cur = l.newBatch()
	}
	if l.head == nil || l.head.end > headerBytes && l.head.end+size > l.c.SegmentBytes {
		l.sealHead()
		l.addSegment()
	}
	if l.head.listDue() {
		l.putList()
	}
	at := l.place(r)
	l.head.live += size
	l.head.listed.due = true
	l.lookAhead()
	return at
}

// place appends a record to the head. The caller holds mu.
func (l *Log) place(r *record) loc {
	size := int64(r.size())
	s, b := l.head, l.cur
	r.synced = 0
	switch {
	case s.end == headerBytes:
		r.synced = l.before
	case s.seq == l.synced.seg:
		r.synced = l.synced.off
	}
	n := len(b.chunks)
	if n == 0 || b.chunks[n-1].seg != s {
		b.chunks = append(b.chunks, chunkOf{seg: s, off: s.end})
		n++
	}
	b.add(&b.chunks[n-1], r, s.salt, r.stays && len(r.data) >= l.c.sharedBytes)
	s.footer = appendItem(s.footer, r)
	at := loc{s.seq, uint32(s.end), uint32(size)}
	s.end += size
	l.appended += Position(size)
	l.pending += size
	b.end = l.appended
	return at
}

// sealHead lets the writer end the head, if there is one.
func (l *Log) sealHead() {
	s := l.head
	if s == nil {
		return
	}
	if s.listed.due {
		l.putList()
	}
	b := l.cur
	if n := len(b.chunks); n == 0 || b.chunks[n-1].seg != s {
		b.chunks = append(b.chunks, chunkOf{seg: s, off: s.end})
	}
	c := &b.chunks[len(b.chunks)-1]
	c.seal, c.footer = true, s.footer
	s.footer, s.sealed = nil, true
	l.before = uint32(s.end)
	l.head = nil
}

// newSegment numbers a segment; l.mu is held. Its file is made by the roller.
func (l *Log) newSegment() *segment {
	s := &segment{seq: l.nextSeq, salt: saltOf(l.nextSeq, l.secret), end: headerBytes, listed: listed{end: headerBytes}}
	l.nextSeq++
	return s
}

// addSegment makes the next segment the one that is written, the one made ahead if there is one; l.mu is
// held.
func (l *Log) addSegment() {
	s := l.ahead
	if l.ahead = nil; s == nil {
		s = l.newSegment()
	}
	l.segs = append(l.segs, s)
	l.bySeq[s.seq] = s
	l.head = s
}

// drop takes back that a record is live.
func (l *Log) drop(at loc) {
	if at.size == 0 {
		return
	}
	s := l.bySeq[at.seg]
	s.live -= int64(at.size)
	if s.live == 0 && s.sealed {
		l.wake()
	}
}

// wake wakes the housekeeper.
func (l *Log) wake() {
	wait.Wake(l.kick)
}

// usable returns why the log can do nothing, or nil. The caller holds mu.
func (l *Log) usable() error {
	if l.err != nil {
		return l.err
	}
	if l.closing {
		return ErrClosed
	}
	return nil
}

// admit waits until fewer than MaxPendingBytes wait for the disk. The caller holds mu.
func (l *Log) admit() error {
	for l.usable() == nil && l.pending >= l.c.MaxPendingBytes {
		l.space.Wait()
	}
	return l.usable()
}

// fail fails everything from now on. The caller holds mu.
func (l *Log) fail(err error) {
	if l.err != nil {
		return
	}
	l.err = fmt.Errorf("wal: %s: %w: nothing is written any more until the node is started again", l.dir.Path(), err)
	l.c.Logger.Error("the log has failed, all groups of this node must stop", "error", l.err)
	var groups []*GroupLog
	for b := range l.waiting() {
		b.err = l.err
		close(b.done)
		groups = append(groups, b.groups...)
	}
	l.inflight, l.full, l.cur = nil, nil, &batch{done: make(chan struct{})}
	close(l.cur.done)
	l.cur.err = l.err
	l.work.Broadcast()
	l.space.Broadcast()
	l.rolling.Broadcast()
	failure, onFailure := l.err, l.c.OnFailure
	go func() { // the callers of fail hold mu
		if onFailure != nil {
			onFailure(failure)
		}
		notify(groups, 0, failure)
	}()
}

// Failed returns the error that made the log fail, nil if it works.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Durable returns the position up to which everything survives a power cut.
func (l *Log) Durable() Position { return Position(l.durable.Load()) }

// holding returns the batch that makes a position durable, nil if it is. The caller
// holds mu.
func (l *Log) holding(p Position) *batch {
	if p <= l.Durable() || l.err != nil {
		return nil
	}
	for b := range l.waiting() {
		if p <= b.end {
			return b
		}
	}
	return nil
}

// wait waits until everything up to p survives a power cut.
func (l *Log) wait(p Position) error {
	l.mu.Lock()
	b, err := l.holding(p), l.err
	l.mu.Unlock()
	if b == nil {
		return err
	}
	<-b.done
	return b.err
}

// Close writes waiting records, seals the current segment and releases the directory. All groups
// must have stopped.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return ErrClosed
	}
	if l.err == nil {
		l.sealHead()
	}
	l.closing = true
	l.work.Broadcast()
	l.space.Broadcast()
	l.mu.Unlock()
	close(l.stop)
	l.idle.Stop()
	l.workers.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.err
	for _, s := range l.segs {
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
	}
	return errors.Join(err, l.dropAhead(), l.lock.Close())
}
