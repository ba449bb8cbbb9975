//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
)

const (
	mountBytes = 96 << 20
	mountLow   = 48 << 20
	mountFloor = 16 << 20
)

// mountDataDirs gives each node a small file system of its own.
func mountDataDirs(t *testing.T, bytes int, edit func(*Config)) *testNodes {
	t.Helper()
	mounted := map[string]bool{}
	return newTestNodes(t, func(c *Config) {
		c.DiskHang = time.Hour
		if edit != nil {
			edit(c)
		}
		if mounted[c.DataDir] {
			return
		}
		if err := os.MkdirAll(c.DataDir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", c.DataDir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
			t.Skipf("this needs the right to mount a tmpfs: %v", err)
		}
		mounted[c.DataDir] = true
		t.Cleanup(func() {
			if err := syscall.Unmount(c.DataDir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	})
}

// fill leaves so many free bytes on a node's file system, by a file that is not its own.
func fill(t *testing.T, n *testNodes, i id.NodeID, free int64) {
	t.Helper()
	var s syscall.Statfs_t
	dir := filepath.Join(n.dir, string(i))
	if err := syscall.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Fallocate(int(f.Fd()), 0, end, int64(s.Bavail)*s.Bsize-free), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func clearDisk(t *testing.T, n *testNodes, i id.NodeID) {
	t.Helper()
	if err := os.Remove(filepath.Join(n.dir, string(i), "filler")); err != nil {
		t.Fatal(err)
	}
}

// The same as TestDiskLow and TestDiskFloor on real file systems that really fill up: one
// down to its floor and one below its low limit, while messages come in.
func TestDiskMounted(t *testing.T) {
	if testing.Short() {
		t.Skip("fills file systems; run without -short")
	}
	n := mountDataDirs(t, mountBytes, func(c *Config) { c.DiskLow, c.DiskFloor = mountLow, mountFloor })
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
	state := func(i id.NodeID, want wal.Pressure) {
		t.Helper()
		for _, node := range n.nodes {
			poll(t, fmt.Sprintf("the disk of %s is at %s", i, want), func() error {
				if disk := node.disks.Of(i); disk == nil || disk.Pressure != want {
					return fmt.Errorf("node %s knows %+v", node.cfg.Node, disk)
				}
				return nil
			})
		}
	}
	publish(b, "before")

	// Below the floor of all: the reserves are given up, and consuming continues.
	for i := range n.nodes {
		fill(t, n, i, mountFloor/2)
	}
	for i, node := range n.nodes {
		state(i, wal.PressureLow)
		poll(t, fmt.Sprintf("node %s gives its reserve up", i), func() error { // its log alone may have it low
			if s := node.storage.Space(); s.Reserve != 0 || s.Missing != mountFloor || s.Free < mountFloor {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	if err := c.tryPublish(t, q, "nobody has room"); !errors.Is(err, disk.ErrNoSpace) {
		t.Errorf("published: %v", err)
	}
	n.drain(c, q, 0)
	confirmed = nil
	for i := range n.nodes {
		clearDisk(t, n, i)
	}
	for i, node := range n.nodes {
		state(i, wal.PressureNone)
		if s := node.storage.Space(); s.Reserve != mountFloor || s.Missing != 0 {
			t.Errorf("node %s has room again: %+v", i, s)
		}
	}

	publish(b, "after")
	for range 2 { // the first time the reserve makes room
		fill(t, n, "a", mountFloor/2)
		poll(t, "the reserve is gone", func() error {
			if s := a.storage.Space(); s.Reserve != 0 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	state("a", wal.PressureFloor)
	for k := range 20 {
		publish(b, fmt.Sprintf("one is full, %d", k))
	}
	fill(t, n, "b", mountLow-(1<<20))
	state("b", wal.PressureLow)
	if err := c.tryPublish(t, q, "two have no room"); !errors.Is(err, disk.ErrNoSpace) {
		t.Errorf("published: %v", err)
	}
	consumer, in := c.consume(t, q)
	in.await(t, confirmed...)
	consumer.Close()

	clearDisk(t, n, "a")
	clearDisk(t, n, "b")
	state("a", wal.PressureNone)
	state("b", wal.PressureNone)
	n.ready("a", "b")
	publish(a, "all have room")
	n.caughtUp(q, "a")
	n.stop("c")
	_, in = a.consume(t, q)
	poll(t, "all that was confirmed is delivered", func() error {
		if got := in.bodies(); len(got) != len(confirmed) {
			return fmt.Errorf("%d of %d", len(got), len(confirmed))
		}
		return nil
	})
}
