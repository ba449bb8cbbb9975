package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

const (
	testDiskLow   = 1 << 20
	testDiskFloor = 256 << 10
)

// testDisks are the disks of the logs of nodes.
type testDisks struct {
	mu  sync.Mutex
	mem map[string]*vfs.Mem // by path
}

// newDiskNodes returns nodes whose logs are on disks that the test fills and hangs.
func newDiskNodes(t *testing.T, edit func(*Config)) (*testNodes, *testDisks) {
	d := &testDisks{mem: map[string]*vfs.Mem{}}
	return newTestNodes(t, func(c *Config) {
		c.DiskLow, c.DiskFloor, c.DiskHang = testDiskLow, testDiskFloor, time.Hour
		c.LogDir = func(path string) (vfs.Dir, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.mem[path] == nil {
				d.mem[path] = vfs.NewMem()
			}
			return d.mem[path], nil
		}
		if edit != nil {
			edit(c)
		}
	}), d
}

func (d *testDisks) of(n *testNodes, i id.NodeID) *vfs.Mem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mem[filepath.Join(n.dir, string(i), datadir.LogDir)]
}

// leave lets a node's disk have so many free bytes, and waits until all nodes know.
func (d *testDisks) leave(n *testNodes, i id.NodeID, free uint64, want wal.Pressure) {
	n.t.Helper()
	m := d.of(n, i)
	m.SetCapacity(m.Used() + free)
	for name, node := range n.nodes {
		poll(n.t, fmt.Sprintf("node %s knows that the disk of %s is at %s", name, i, want), func() error {
			if disk := node.disks.Of(i); disk == nil || disk.Pressure != want {
				return fmt.Errorf("it knows %+v", disk)
			}
			return nil
		})
	}
}

// tryPublish publishes a message and returns the outcome.
func (n *testNode) tryPublish(t *testing.T, q id.QueueUID, body string) error {
	t.Helper()
	done := make(chan error, 1)
	err := n.queue(t, q).Enqueue(testContext(t), quorumq.NewMessage{Size: uint32(len(body)), TTLMs: quorumq.Unlimited}, []byte(body),
		func(err error) { done <- err })
	if err != nil {
		return err
	}
	return <-done
}

// PUB-5, PUB-6: for lack of room, only its queue refuses a named producer's message for good, which knows what an
// earlier try has stored, and stores it never after that.
func TestNamedProducerWithoutRoom(t *testing.T) {
	t.Parallel()
	n, d := newDiskNodes(t, nil)
	n.start("a", "b", "c")
	c := n.nodes["c"]
	q := n.nodes["a"].declare(t, "q", 3)
	producer := &quorumq.ProducerID{1}
	publish := func(at *testNode, number uint64, want error) {
		t.Helper()
		body := fmt.Sprint("message ", number)
		m := quorumq.NewMessage{Size: uint32(len(body)), TTLMs: quorumq.Unlimited, Producer: producer, ProducerSeq: number}
		done := make(chan error, 1)
		if err := at.queue(t, q).Enqueue(testContext(t), m, []byte(body), func(err error) { done <- err }); err != nil {
			t.Fatalf("message %d at node %s: %v", number, at.cfg.Node, err)
		}
		if err := <-done; !errors.Is(err, want) {
			t.Errorf("message %d at node %s: %v, want %v", number, at.cfg.Node, err, want)
		}
	}
	publish(n.nodes["a"], 1, nil)
	d.leave(n, "a", testDiskLow-1000, wal.PressureLow)
	d.leave(n, "b", testDiskLow-1000, wal.PressureLow)
	publish(c, 1, nil) // another node stored it
	publish(c, 2, disk.ErrNoSpace)
	publish(n.nodes["a"], 2, disk.ErrNoSpace)

	d.leave(n, "a", 100*testDiskLow, wal.PressureNone)
	publish(c, 3, nil)
	publish(c, 2, traffic.ErrRefused) // too late: whoever publishes has the refusal
	if got := n.leader(q).overviewAt(t, q).Ready; got != 2 {
		t.Errorf("%d messages are stored, want 2", got)
	}
}

// G14: one disk that is low demotes its node and holds up nobody. Without a majority that
// has room publishes are refused, and what makes room continues. It recovers by itself, and nothing that was
// confirmed is lost.
func TestDiskLow(t *testing.T) {
	t.Parallel()
	n, d := newDiskNodes(t, nil)
	n.start("a", "b", "c")
	a, b, c := n.nodes["a"], n.nodes["b"], n.nodes["c"]
	q := a.declare(t, "q", 3)
	var confirmed []string
	publish := func(at *testNode, body string) {
		t.Helper()
		if err := at.tryPublish(t, q, body); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		confirmed = append(confirmed, body)
	}
	n.transferTo(t, q, "a")
	publish(c, "before")

	d.leave(n, "a", testDiskLow-1000, wal.PressureLow)
	poll(t, "a leads nothing", func() error {
		if led := a.leadsGroups(); len(led) > 0 {
			return fmt.Errorf("it leads %v", led[0])
		}
		return nil
	})
	for _, at := range n.nodes {
		publish(at, "one is low, at "+string(at.cfg.Node))
	}
	n.ready("a")
	if w := a.Warning(); !strings.Contains(w, "storage.disk_low") {
		t.Errorf("warning %q", w)
	}

	d.leave(n, "b", testDiskLow-1000, wal.PressureLow)
	for _, at := range n.nodes {
		err := at.tryPublish(t, q, "two are low")
		if !errors.Is(err, disk.ErrNoSpace) {
			t.Fatalf("published at node %s: %v", at.cfg.Node, err)
		}
		for _, part := range []string{`node "a"`, `node "b"`, "bytes free on " + n.dir, "storage.disk_low is 1048576", "free space there"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not name %q: %v", part, err)
			}
		}
		if r := at.disks.Of(at.cfg.Node).Refused; r != 1 {
			t.Errorf("node %s has refused %d", at.cfg.Node, r)
		}
	}
	if _, err := c.operator.DeclareQueue(testContext(t), catalog.DeclareQueue{
		VHost: "/", Name: "new", Type: catalog.QueueQuorum, Durable: true,
	}, 3, false); !errors.Is(err, disk.ErrNoSpace) {
		t.Errorf("a queue was declared: %v", err)
	}
	consumer, in := b.consume(t, q)
	in.await(t, confirmed...)
	consumer.Close()
	poll(t, "what the consumer held has returned", func() error {
		if o := n.overview(q); o.Ready != uint64(len(confirmed)) {
			return fmt.Errorf("%d are ready", o.Ready)
		}
		return nil
	})
	if n, err := a.queue(t, q).Purge(testContext(t)); err != nil || n != uint64(len(confirmed)) {
		t.Errorf("purged %d, %v", n, err)
	}
	confirmed = nil

	d.leave(n, "b", 2*testDiskLow, wal.PressureNone)
	publish(a, "b has room again")
	d.leave(n, "a", 2*testDiskLow, wal.PressureNone)
	for _, at := range n.nodes {
		publish(at, "all have room, at "+string(at.cfg.Node))
	}
	_, in = a.consume(t, q)
	in.await(t, confirmed...)
}

// A disk that is nearly full stops the members of its node before the log fails. They
// come back without a restart, with what they have missed.
func TestDiskFloor(t *testing.T) {
	t.Parallel()
	n, d := newDiskNodes(t, nil)
	n.start("a", "b", "c")
	a, b := n.nodes["a"], n.nodes["b"]
	q := a.declare(t, "q", 3)
	gone := a.declare(t, "gone", 3)
	b.publish(t, q, "before", quorumq.Unlimited)
	n.transferTo(t, q, "a")

	d.leave(n, "a", testDiskFloor-1000, wal.PressureFloor)
	poll(t, "members on a are stopped", func() error {
		if open := len(a.host.Members()); open > 0 {
			return fmt.Errorf("%d are open", open)
		}
		if own := a.disks.Of("a"); own.Stopped != 2 {
			return fmt.Errorf("%d are told", own.Stopped)
		}
		return nil
	})
	poll(t, "a is not ready for want of room", func() error { // after the catalog's leader has moved
		if err := a.Ready(); !errors.Is(err, disk.ErrNoSpace) || !strings.Contains(err.Error(), "2 members are stopped") {
			return fmt.Errorf("ready: %w", err)
		}
		return nil
	})
	for _, at := range n.nodes {
		at.publish(t, q, "without a, at "+string(at.cfg.Node), quorumq.Unlimited)
	}
	if _, err := b.catalog.Propose(testContext(t), &catalog.DeleteQueue{VHost: "/", Name: "gone"}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the deleted queue's files are gone from a", func() error {
		if a.dir.HasQueue(gone) || a.storage.Has(gone.Group()) {
			return errWaiting
		}
		return nil
	})

	d.leave(n, "a", 2*testDiskLow, wal.PressureNone)
	n.ready("a")
	n.caughtUp(q, "a")
	if err := a.storage.Failed(); err != nil {
		t.Fatal(err)
	}
	// What a has is whole: it can carry the queue without one that was always there.
	n.stop("c")
	_, in := a.consume(t, q)
	poll(t, "all that was confirmed is delivered", func() error {
		if got := in.bodies(); len(got) != 4 || got[0] != "before" {
			return fmt.Errorf("have %q", got)
		}
		return nil
	})
}

// startHangingNodes starts nodes whose disks may hang for 4 s, and returns why node a fails.
func startHangingNodes(t *testing.T) (n *testNodes, d *testDisks, ended <-chan error) {
	failed := make(chan error, 10)
	n, d = newDiskNodes(t, func(c *Config) {
		c.DiskHang = 4 * time.Second
		if c.Node == "a" {
			c.Failed = func(err error) { failed <- err }
		}
	})
	n.start("a", "b", "c")
	return n, d, failed
}

// A disk that hangs makes its node give up its leaders, and in the end ends the node.
func TestDiskHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("a disk must hang for seconds; run without -short")
	}
	t.Parallel()
	n, d, ended := startHangingNodes(t)
	a, b := n.nodes["a"], n.nodes["b"]
	q := a.declare(t, "q", 3)
	b.publish(t, q, "before", quorumq.Unlimited)
	n.transferTo(t, q, "a")
	hung, release := d.of(n, "a").HangAt(vfs.OpSync, 1)
	defer release()
	if err := b.tryPublish(t, q, "while it hangs"); err != nil {
		t.Fatal(err)
	}
	<-hung
	poll(t, "another node leads", func() error {
		if leader, _ := b.host.LeaderOf(q); leader == "a" || leader == "" {
			return fmt.Errorf("leader %q", leader)
		}
		return nil
	})
	err := <-ended
	if !errors.Is(err, disk.ErrHangs) || !strings.Contains(err.Error(), filepath.Join(n.dir, "a")) {
		t.Errorf("the node ends by %v", err)
	}
	if w := a.Warning(); !strings.Contains(w, "has been under way") {
		t.Errorf("warning %q", w)
	}
}

// fewFiles is a disk whose node gets no file descriptor for a new file.
type fewFiles struct {
	*vfs.Mem
	now *atomic.Bool
}

func (f fewFiles) Create(name string) (vfs.File, error) {
	if f.now.Load() {
		return nil, syscall.EMFILE
	}
	return f.Mem.Create(name)
}

// A disk that hangs ends its node also while the log waits for a file descriptor, for a segment that no write needs yet.
func TestDiskHangsWhileDescriptorsLack(t *testing.T) {
	if testing.Short() {
		t.Skip("a disk must hang for seconds; run without -short")
	}
	t.Parallel()
	ended := make(chan error, 10)
	few := fewFiles{vfs.NewMem(), &atomic.Bool{}}
	n := newTestNodes(t, func(c *Config) {
		c.DiskHang = 4 * time.Second
		if c.Node == "a" {
			c.LogDir = func(string) (vfs.Dir, error) { return few, nil }
			c.Failed = func(err error) { ended <- err }
		}
	})
	n.start("a", "b", "c")
	a := n.nodes["a"]
	q := a.declare(t, "q", 1)
	few.now.Store(true)
	body := strings.Repeat("x", 1<<20)
	poll(t, "the log waits for a descriptor", func() error {
		if a.storage.Short() {
			return nil
		}
		a.publish(t, q, body, quorumq.Unlimited)
		return errors.New("it does not")
	})
	hung, release := few.HangAt(vfs.OpSync, 1)
	defer release()
	go func() { _ = a.tryPublish(t, q, "while it hangs") }()
	<-hung
	if err := <-ended; !errors.Is(err, disk.ErrHangs) || !a.storage.Short() {
		t.Errorf("short: %v, the node ends by %v", a.storage.Short(), err)
	}
}

// A node whose log has failed cuts its connections first: the others have another leader although
// the node has not ended, and nothing of it.
func TestFailedLogCutsConnections(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 10)
	n, d := newDiskNodes(t, func(c *Config) {
		if c.Node == "a" {
			c.Failed = func(err error) { failed <- err }
		}
	})
	n.start("a", "b", "c")
	a, b := n.nodes["a"], n.nodes["b"]
	q := a.declare(t, "q", 3)
	b.publish(t, q, "before", quorumq.Unlimited)
	n.transferTo(t, q, "a")
	d.of(n, "a").FailAt(vfs.OpSync, 1, syscall.EIO)
	b.publish(t, q, "while a's log fails", quorumq.Unlimited)
	if err := <-failed; !errors.Is(err, ErrDiskFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("the node ends by %v", err)
	}
	for _, at := range []*testNode{b, n.nodes["c"]} {
		poll(t, "its peers have no links to it", func() error {
			if _, up := at.mux.Connected("a"); up {
				return fmt.Errorf("node %s has one", at.cfg.Node)
			}
			return nil
		})
	}
	n.stop("a")
	_, in := b.consume(t, q)
	in.await(t, "before", "while a's log fails")
}
