package groupsim

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

const (
	theGroup id.GroupID = 1024
	// electionTimeout is how long a follower hears nothing until it campaigns.
	electionTimeout = 150 * time.Millisecond
	// stallTimeout is how long a write may take until its disk counts as one that hangs.
	stallTimeout = 300 * time.Millisecond
	segmentBytes = 1 << 16
)

// node is a machine with a member of the group: its disk, and the process while that runs.
type node struct {
	run  *run
	id   id.NodeID
	dir  string // of the snapshots that there are none of
	pace *pace
	// turn is held by who starts the member or cuts its power, and guards mem and lives.
	turn  chan struct{}
	mem   *vfs.Mem
	lives int

	// The run's lock guards what follows.
	live  *member    // nil while the power is off, and until the member is opened
	at    *transport // where it is reached; nil while the power is off
	store *store     // of the newest life; nil before the first
}

// member is a process.
type member struct {
	node    *node
	start   start
	log     *wal.Log
	store   *store
	machine *machine
	group   *raftfsm.Group[reply, struct{}]
}

func newNode(r *run, i int) *node {
	n := &node{
		run: r, id: id.NodeID(fmt.Sprintf("n%d", i)), turn: make(chan struct{}, 1), mem: vfs.NewMem(),
		pace: &pace{dice: r.dice, most: quickDisk},
	}
	n.dir = filepath.Join(r.cfg.Dir, string(n.id))
	return n
}

// start starts the process on what its disk holds.
func (n *node) start() error {
	n.turn <- struct{}{}
	defer func() { <-n.turn }()
	return n.open()
}

// open is start for the holder of the turn.
func (n *node) open() error {
	n.lives++
	m := &member{node: n, start: start{n.id, n.lives}, machine: &machine{}}
	var err error
	m.log, err = wal.Open(disk{n.mem, n.pace}, wal.Config{SegmentBytes: segmentBytes, SpaceInterval: -1, LowBytes: -1, FloorBytes: -1})
	if err != nil {
		return err
	}
	if err := m.open(); err != nil {
		return errors.Join(err, m.log.Close())
	}
	n.run.mu.Lock()
	defer n.run.mu.Unlock()
	n.live = m
	return nil
}

// open opens the member on its log. From when it has a transport on it is reached.
func (m *member) open() error {
	n := m.node
	g, err := m.log.Group(theGroup)
	if err != nil {
		return err
	}
	if m.store, err = newStore(g); err != nil {
		return err
	}
	snapshots, err := raftfsm.OpenSnapshots(n.dir, m.store)
	if err != nil {
		return err
	}
	t := newTransport(n, m.start)
	n.run.mu.Lock()
	n.at, n.store = t, m.store
	n.run.change()
	n.run.mu.Unlock()
	m.group, err = raftfsm.Open(raftfsm.Config[reply, struct{}]{
		Group: theGroup, Node: n.id, Machine: m.machine, Transport: t, Storage: m.store, Snapshots: snapshots,
		HeartbeatTimeout: electionTimeout, ElectionTimeout: electionTimeout, StallTimeout: stallTimeout,
		Logger: slog.New(slog.DiscardHandler),
	})
	return err
}

// off takes the power away for a while, if the member is still in the life that at belongs to; nil: in whichever it is.
func (n *node) off(at *transport, loss vfs.Loss, down time.Duration) {
	n.turn <- struct{}{}
	defer func() { <-n.turn }()
	if !n.powerCut(at, loss) {
		return
	}
	<-time.After(down)
	if err := n.open(); err != nil {
		n.run.broke("start", "member %s does not start after a power cut that loses by rule %d: %v", n.id, loss, err)
	}
}

// cut takes the power away for good.
func (n *node) cut(at *transport, loss vfs.Loss) {
	n.turn <- struct{}{}
	defer func() { <-n.turn }()
	n.powerCut(at, loss)
}

// powerCut ends the process; false: it does not run, or in another life. Nothing that it says leaves it from the moment on
// at which its disk stops.
func (n *node) powerCut(at *transport, loss vfs.Loss) bool {
	r := n.run
	r.mu.Lock()
	m, t := n.live, n.at
	if m == nil || at != nil && t != at {
		r.mu.Unlock()
		return false
	}
	n.live, n.at, t.off = nil, nil, true
	m.store.cut()
	r.result.Cuts++
	r.mu.Unlock()
	r.dice.mu.Lock()
	n.mem = n.mem.Crash(loss, r.dice.r)
	r.dice.mu.Unlock()
	n.pace.release()
	_ = t.Close()
	_ = m.group.Close() // its disk is off
	_ = m.log.Close()
	return true
}

// failed returns why the member has stopped by itself; nil: it has not.
func (n *node) failed() error {
	r := n.run
	r.mu.Lock()
	m, t := n.live, n.at
	r.mu.Unlock()
	if m == nil {
		return nil
	}
	err := m.group.Failed()
	r.mu.Lock()
	defer r.mu.Unlock()
	if t == nil || t.off { // then it has stopped for that
		return nil
	}
	return err
}
