package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
)

// Disk is how the disk fares that a node's data directory is on.
type Disk struct {
	Path       string
	Pressure   wal.Pressure
	Free       uint64        // bytes
	Low, Floor uint64        // limits of Free; 0: none
	Hangs      time.Duration // for how long a write has been under way, if that is too long; 0: it is not
	Stopped    int           // members that wait for room
	Refused    uint64        // publishes that this node refused for want of room, since its start
	Moved      uint64        // leaders that it handed over for want of room, since its start
}

const (
	// diskRest is the time between two looks at a disk that tells no news, at the moments of
	// beats, which wake the node anyway. It is shorter than what any write may take, so that
	// each is seen before it has taken that long.
	diskRest = beatEvery
	// diskTick is that time while a write hangs.
	diskTick = 250 * time.Millisecond
	// diskTellEvery is the time between two words to peers while nothing changes.
	diskTellEvery = 30 * time.Second
	// diskTellAgain is the wait after a word that did not reach all.
	diskTellAgain = 5 * time.Second
	// diskTellTimeout bounds one word to a peer.
	diskTellTimeout = 2 * time.Second
)

// disks knows the disks of this node and of its peers, and does what they ask for:
//
//   - low: the node hands its leaders to nodes that have room, and queues without a
//     majority of members with room take no more messages. What makes room goes on.
//   - floor, and the log's reserve is used up: the node's members of queues stop, before the
//     log can fail.
//   - a write hangs: its leaders are silent, so that others are elected; if it does not
//     come back, the node ends.
//
// All methods may be called concurrently; none but the loops waits for anything.
type disks struct {
	c     *Cluster
	looks chan struct{} // of capacity 1: do not wait for the next look
	tells chan struct{} // of capacity 1
	moves chan struct{} // of capacity 1: the pressure on this node's disk has changed

	scarce  atomic.Bool  // some node has little room; false lets admit be quick
	low     atomic.Bool  // this node has little room
	window  atomic.Int64 // bytes of bodies that may wait for each queue's answers
	hangs   atomic.Bool  // a write of this node hangs
	refused atomic.Uint64
	moved   atomic.Uint64
	ended   sync.Once

	mu     sync.Mutex // guards what follows
	own    Disk
	number uint64 // of the newest word to peers
	peers  map[id.NodeID]toldDisk
}

// toldDisk is what a peer told last.
type toldDisk struct {
	Disk

	epoch  id.Epoch
	number uint64
}

func newDisks(c *Cluster) *disks {
	d := &disks{
		c: c, looks: make(chan struct{}, 1), tells: make(chan struct{}, 1), moves: make(chan struct{}, 1),
		own: Disk{Path: c.cfg.DataDir}, peers: map[id.NodeID]toldDisk{},
	}
	d.window.Store(maxWaitingBytes)
	return d
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (d *disks) lookSoon() { nudge(d.looks) }
func (d *disks) tellSoon() { nudge(d.tells) }

// watch looks at this node's disk until ctx ends.
func (d *disks) watch(ctx context.Context) {
	due := time.Now().Add(diskRest)
	next := time.NewTimer(diskRest)
	defer next.Stop()
	for {
		late := time.Duration(0)
		select {
		case <-next.C:
			late = time.Since(due)
		case <-d.looks:
		case <-ctx.Done():
			return
		}
		left := d.look(late)
		now := time.Now()
		wait := lookAfter(now, left)
		due = now.Add(wait)
		next.Reset(wait)
	}
}

// look takes in how this node's disk fares, without asking it. late is how long after it was
// due it looks. It returns how long it takes until a write hangs; 0: one does.
func (d *disks) look(late time.Duration) (left time.Duration) {
	space := d.c.shared.Space()
	age, left := d.oldestWrite(late)
	stopped := 0
	if space.Pressure == wal.PressureFloor {
		stopped = d.c.host.notOpen()
	}
	d.mu.Lock()
	was := d.own
	d.own.Pressure, d.own.Free = space.Pressure, space.Free
	d.own.Low, d.own.Floor = uint64(max(0, space.Low)), uint64(max(0, space.Floor))
	if d.own.Hangs = age; left > 0 {
		d.own.Hangs = 0
	}
	d.own.Stopped = stopped
	now := d.own
	d.count()
	d.mu.Unlock()
	if now.Pressure != was.Pressure {
		d.pressed(&was, &now)
	}
	if hangs := now.Hangs > 0; hangs != (was.Hangs > 0) {
		d.hung(hangs, max(now.Hangs, was.Hangs))
	}
	if now.Hangs > 0 && d.hopeless() && d.c.cfg.Failed != nil {
		d.ended.Do(func() {
			d.c.cfg.Failed(fmt.Errorf("%w: a write to %q has been under way for %s: this node ends, so that it is started anew; look at the disk",
				ErrDiskHangs, now.Path, now.Hangs.Round(time.Millisecond)))
		})
	}
	return left
}

// hopeless tells whether the disk has held up a write for so long that the node ends. To wait for a file
// descriptor is not the disk's fault, and a start would not bring it sooner.
func (d *disks) hopeless() bool {
	return max(d.c.shared.Hung(), d.oldestOwn()) >= d.c.cfg.DiskHang
}

// oldestOwn is the age of the oldest write to a log that a group has for itself.
func (d *disks) oldestOwn() time.Duration {
	own := d.c.catalog.group.WriteAge()
	if d.c.cfg.QueueLog == QueueLogBolt {
		for _, q := range d.c.host.all() {
			own = max(own, q.group.WriteAge())
		}
	}
	return own
}

// oldestWrite returns for how long the write has been under way that is nearest to being held
// to hang, and how long it takes until then.
func (d *disks) oldestWrite(late time.Duration) (age, left time.Duration) {
	age, usual := d.c.shared.Stalled()
	left = untilStall(age, usual, d.c.mux.Leniency(), late)
	own := d.oldestOwn()
	return max(age, own), min(left, untilStall(own, wal.MostStall, 0, late))
}

// pressed acts on a change of the pressure on this node's disk.
func (d *disks) pressed(was, now *Disk) {
	attrs := []any{
		"path", now.Path, "pressure", now.Pressure.String(), "was", was.Pressure.String(),
		"free_bytes", now.Free, "disk_low_bytes", now.Low, "disk_floor_bytes", now.Floor,
	}
	switch now.Pressure {
	case wal.PressureNone:
		d.c.log.Info("the disk has room again: this node leads and takes messages as before", attrs...)
	case wal.PressureLow:
		d.c.log.Warn("the disk is low: this node hands its leaders to nodes that have room; free space or make the volume larger", attrs...)
	case wal.PressureFloor:
		d.c.log.Error("the disk is nearly full: this node's members of queues stop until there is room; free space or make the volume larger", attrs...)
	}
	d.tellSoon()
	nudge(d.moves)
	if was.Pressure == wal.PressureFloor || now.Pressure == wal.PressureFloor {
		d.c.host.wakeReconcile()
	}
}

// hung acts when a write begins to hang, and when it has come back.
func (d *disks) hung(hangs bool, age time.Duration) {
	d.hangs.Store(hangs)
	if hangs {
		d.c.log.Error("a write to the disk hangs: this node's leaders are silent, so that other members are elected",
			"path", d.c.cfg.DataDir, "for", age, "ends_after", d.c.cfg.DiskHang, "waits_for_descriptor", d.c.shared.Short())
	} else {
		d.c.log.Warn("the disk takes writes again", "path", d.c.cfg.DataDir, "hung_for", age)
	}
	d.c.catalog.group.HangsChanged()
	for _, q := range d.c.host.all() {
		q.group.HangsChanged()
	}
	if hangs {
		d.c.gateway.hostHangs()
	}
	d.tellSoon()
}

// windowShare of the least storage.disk_low of all nodes may wait for a queue's answers: what
// was accepted before publishes are refused has to find room.
const windowShare = 8

// count notes whether any node has little room, and what that means for this one. The
// caller holds mu.
func (d *disks) count() {
	scarce, low := d.own.Pressure != wal.PressureNone, d.own.Low
	for _, p := range d.peers {
		scarce = scarce || p.Pressure != wal.PressureNone
		if p.Low > 0 && (low == 0 || p.Low < low) {
			low = p.Low
		}
	}
	d.scarce.Store(scarce)
	d.low.Store(d.own.Pressure != wal.PressureNone)
	window := int64(maxWaitingBytes)
	if low > 0 {
		window = int64(min(maxWaitingBytes, low/windowShare))
	}
	d.window.Store(window)
}

// of returns what is known of a node's disk, nil if nothing is.
func (d *disks) of(n id.NodeID) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n == d.c.cfg.Node {
		own := d.own
		own.Refused, own.Moved = d.refused.Load(), d.moved.Load()
		return &own
	}
	if p, told := d.peers[n]; told {
		return &p.Disk
	}
	return nil
}

// fine tells whether a node has room, as far as it has told.
func (d *disks) fine(n id.NodeID) bool {
	known := d.of(n)
	return known == nil || known.Pressure == wal.PressureNone
}

// full tells whether this node's members of queues are to stop.
func (d *disks) full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.own.Pressure == wal.PressureFloor
}

// ready tells why this node is not: its members do not count while they are stopped, so
// that no other node may be taken down.
func (d *disks) ready() error {
	own := d.of(d.c.cfg.Node)
	if own.Pressure != wal.PressureFloor {
		return nil
	}
	return fmt.Errorf("%w: %s: %d members are stopped until there is room", ErrNoSpace, own.describe(d.c.cfg.Node), own.Stopped)
}

// Warning tells what an operator should look at although the node serves; "": nothing.
func (c *Cluster) Warning() string {
	own := c.disks.of(c.cfg.Node)
	switch {
	case own.Hangs > 0:
		return fmt.Sprintf("a write to %s has been under way for %s", own.Path, own.Hangs.Round(time.Millisecond))
	case own.Pressure != wal.PressureNone:
		return own.describe(c.cfg.Node)
	}
	if c.host != nil {
		if n := len(c.host.lostMembers()); n > 0 {
			return fmt.Sprintf("%d members on this node have lost what they had stored and wait to be rebuilt", n)
		}
	}
	return c.clock.warning()
}
