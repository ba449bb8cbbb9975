package raftfsm

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

var errDisk = errors.New("input/output error")

// faulty is a storage whose disk fails or hangs on demand.
type faulty struct {
	Storage
	failWrites atomic.Bool
	failTerm   atomic.Bool
	failReads  atomic.Bool
	rotten     atomic.Uint64 // an entry of which one byte is read changed
	hang       sync.RWMutex  // locked: writes wait
}

func (f *faulty) StoreLogs(logs []*raft.Log) error {
	f.hang.RLock()
	defer f.hang.RUnlock()
	if f.failWrites.Load() {
		return errDisk
	}
	return f.Storage.StoreLogs(logs)
}

func (f *faulty) SetUint64(key []byte, v uint64) error {
	if f.failTerm.Load() {
		return errDisk
	}
	return f.Storage.SetUint64(key, v)
}

func (f *faulty) GetLog(index uint64, out *raft.Log) error {
	if f.failReads.Load() {
		return errDisk
	}
	return f.rot(index, out, f.Storage.GetLog(index, out))
}

func (f *faulty) Entry(index uint64, out *raft.Log) error {
	return f.rot(index, out, f.Storage.Entry(index, out))
}

// rot changes a byte of the rotten entry, which the storage has not noticed.
func (f *faulty) rot(index uint64, out *raft.Log, err error) error {
	if err == nil && index == f.rotten.Load() {
		out.Data = slices.Clone(out.Data)
		out.Data[len(out.Data)-1] ^= 0x10
	}
	return err
}

func (f *faulty) IsMonotonic() bool { return true }

func makeFaulty(_ *member, c *Config[reply, string]) { c.Storage = &faulty{Storage: c.Storage} }

func (m *member) faults(t *testing.T) *faulty {
	t.Helper()
	f, ok := m.storage.(*faulty)
	if !ok {
		t.Fatalf("storage is a %T", m.storage)
	}
	return f
}

// stopsAlone waits until a member has failed with the text and the others continue.
func (c *testCluster) stopsAlone(m *member, text string) {
	c.t.Helper()
	until(c.t, string(m.node)+" to stop", func() bool { return m.group.Failed() != nil })
	err := m.group.Failed()
	if !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), testGroup.String()) || !strings.Contains(err.Error(), string(m.node)) {
		c.t.Errorf("%s stopped with: %v", m.node, err)
	}
	if m.group.Leading() {
		c.t.Errorf("%s leads although it has stopped", m.node)
	}
	if _, err := m.group.Propose(c.t.Context(), command("x")); !errors.Is(err, ErrStopped) {
		c.t.Errorf("%s answers: %v", m.node, err)
	}
	c.propose("after the fault", "body")
	c.equal()
	for _, o := range c.members {
		if o != m && o.group.Failed() != nil {
			c.t.Errorf("%s stopped too: %v", o.node, o.group.Failed())
		}
	}
	if n, _ := m.group.Leader(); n != "" {
		c.t.Errorf("%s names a leader although it has stopped", m.node)
	}
}

func TestFailedWriteStopsTheLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, makeFaulty)
	c.propose("a", "body")
	l := c.leader()
	l.faults(t).failWrites.Store(true)
	if _, err := l.group.Propose(t.Context(), command("b")); !errors.Is(err, ErrUnknownOutcome) && !errors.Is(err, ErrStopped) {
		t.Errorf("command in the failed write: %v", err)
	}
	c.stopsAlone(l, "input/output error")
}

func TestFailedWriteStopsAFollower(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, makeFaulty)
	f := c.follower()
	f.faults(t).failWrites.Store(true)
	c.propose("a", "body")
	c.stopsAlone(f, "input/output error")
}

// Raft panics when it cannot store a term or read an entry that it has to apply.
func TestFailedTermAndReadStopOnlyTheGroup(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, makeFaulty)
	c.propose("a", "body")
	f := c.follower()
	f.faults(t).failTerm.Store(true)
	until(t, "a new term", func() bool {
		for _, m := range c.members {
			if m != f && m.group.Leading() {
				_ = m.group.TransferLeadership(t.Context(), "") // to whom does not matter
			}
		}
		return f.group.Failed() != nil
	})
	c.stopsAlone(f, "input/output error")

	c = newCluster(t, 3, makeFaulty)
	f = c.follower()
	f.faults(t).failReads.Store(true)
	c.propose("a", "body")
	c.stopsAlone(f, "input/output error")
}

// Raft answers nobody whose first configuration it could not store: who waits learns that the group has stopped.
func TestBootstrapOnAFailedDisk(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(*faulty){
		"term":    func(f *faulty) { f.failTerm.Store(true) },
		"entries": func(f *faulty) { f.failWrites.Store(true) },
	} {
		c := newCluster(t, 1, func(m *member, config *Config[reply, string]) {
			m.unconfigured = true
			makeFaulty(m, config)
		})
		m := c.members[0]
		breaks(m.faults(t))
		done := make(chan error, 1)
		go func() { done <- m.group.Bootstrap([]id.NodeID{m.node}) }()
		select {
		case err := <-done:
			if !errors.Is(err, ErrStopped) && !errors.Is(err, errDisk) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(deadline):
			t.Fatalf("%s: bootstrap does not return", name)
		}
		if err := m.group.Failed(); !errors.Is(err, errDisk) {
			t.Errorf("%s: the group is left with %v", name, err)
		}
	}
}

// A leader that hangs in a write is replaced, and follows when its disk is back.
func TestHangingDiskLosesTheLeadership(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(m *member, config *Config[reply, string]) {
		makeFaulty(m, config)
		config.StallTimeout = 100 * time.Millisecond
	})
	c.propose("a", "body")
	old := c.leader()
	disk := old.faults(t)
	disk.hang.Lock()
	unknown := make(chan error, 1)
	old.group.Submit(command("stuck"), func(_ reply, err error) { unknown <- err })
	until(t, "another leader", func() bool {
		return slices.ContainsFunc(c.members, func(m *member) bool { return m != old && m.group.Leading() })
	})
	disk.hang.Unlock()
	if err := <-unknown; !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("command in the hung write: %v", err)
	}
	until(t, "the old leader to step down", func() bool { return !old.group.Leading() })
	c.propose("b", "body")
	c.equal()
	if err := old.group.Failed(); err != nil {
		t.Error(err)
	}
}

// A leader that cannot read its log ends raft's senders; Close waits for nobody for ever.
func TestFailedReadStopsTheLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, makeFaulty)
	for i := range 3 { // raft sends in a pipeline then
		c.propose(strconv.Itoa(i), "body")
	}
	l := c.leader()
	l.faults(t).failReads.Store(true)
	_, _ = l.group.Propose(t.Context(), command("b")) // its outcome is unknown
	c.stopsAlone(l, "input/output error")
	c.close(l)
}

func TestPanicOfTheMachineStopsOnlyTheGroup(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	f := c.follower()
	f.group.Read(func() { f.machine.panics = "bad" })
	c.propose("bad")
	c.stopsAlone(f, "broken invariant")
}

// reopenRotten opens a closed member again, with an entry that has rotted in its storage.
func (c *testCluster) reopenRotten(m *member, index uint64) {
	c.t.Helper()
	c.change = func(_ *member, config *Config[reply, string]) {
		f := &faulty{Storage: config.Storage}
		f.rotten.Store(index)
		config.Storage = f
	}
	c.open(m)
}

// A flipped bit in one member's log is found when the entry is applied: that member
// stops, serves nothing, and never leads with it.
func TestCorruptEntryStopsItsMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	for range 5 {
		c.propose("c", "a body that a disk may damage")
	}
	c.equal()
	f := c.follower()
	index := f.refs()[2].Index
	c.close(f)
	c.reopenRotten(f, index)
	c.stopsAlone(f, "checksum")
	if !errors.Is(f.group.Failed(), errCorrupt) {
		t.Errorf("failure %v", f.group.Failed())
	}
	if got := f.headers(); len(got) > 3 {
		t.Errorf("%s applied %d commands beyond the corrupt one", f.node, len(got)-2)
	}
}

// A body that is read back damaged stops its member too: another one has it whole.
func TestCorruptBodyStopsItsMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	c.propose("c", "a body that a disk may damage")
	c.equal()
	f := c.follower()
	index := f.refs()[0].Index
	if err := f.group.Snapshot(); err != nil {
		t.Fatal(err)
	}
	c.close(f)
	c.reopenRotten(f, index) // behind the snapshot, so that it is not applied again
	if _, err := f.group.Body(BodyRef{Index: index}); !errors.Is(err, errCorrupt) || !errors.Is(err, ErrStopped) {
		t.Errorf("body: %v", err)
	}
	c.stopsAlone(f, "checksum")
}
