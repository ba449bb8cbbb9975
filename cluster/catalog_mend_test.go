package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
	"github.com/quorate/quorate/wal"
)

// mendedVotes waits until the node whose member is rebuilt is a voter of the catalog group, as its leader has it.
func (n *testNodes) mendedVotes() {
	const i id.NodeID = "c"
	n.t.Helper()
	poll(n.t, fmt.Sprintf("node %s is a voter", i), func() error {
		for _, node := range n.nodes {
			if at, err := node.catalog.Raft().Configuration(); err == nil && node.catalog.Leader() == node.cfg.Node {
				if slices.Contains(at.Voters, i) {
					return nil
				}
			}
		}
		return errWaiting
	})
}

// A member of the catalog that has failed while the others continue is rebuilt: the node is ordered to start over,
// comes back as one that has lost its catalog, and serves what all have.
func TestFailedCatalogIsBuiltAnew(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 9)
	n := newTestNodes(t, func(c *Config) {
		if c.Node == "c" {
			c.Failed = func(err error) { failed <- err }
		}
	})
	n.start("a", "b", "c")
	n.mendedVotes()
	n.nodes["c"].catalog.Raft().Fail(fmt.Errorf("entry 7: %w", wal.ErrLost))
	if err := <-failed; !errors.Is(err, metadata.ErrFailed) || !strings.Contains(err.Error(), "entry 7") {
		t.Fatalf("failed %v", err)
	}
	if err := n.nodes["c"].Ready(); err == nil {
		t.Error("the node is ready with a view that stands still")
	}
	q := n.nodes["a"].declare(t, "while it had failed", 2)
	n.nodes["a"].publish(t, q, "x", quorumq.Unlimited)
	n.stop("c")
	if _, err := os.Stat(filepath.Join(n.dir, "c", datadir.LostCatalog, datadir.CatalogLog)); err != nil {
		t.Errorf("what it had stored was not kept: %v", err)
	}
	n.start("c")
	n.mendedVotes()
	if _, ok := n.nodes["c"].View().QueueByUID(q); !ok {
		t.Error("the view does not have what was declared meanwhile")
	}
}

// A node whose catalog's log cannot be written, as where the disk was filled at once, ends: one that
// stays would serve nobody, also when there is room again.
func TestCatalogOnFailedDisk(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 9)
	n := newTestNodes(t, func(c *Config) {
		if c.Node == "c" {
			c.Failed = func(err error) { failed <- err }
		}
	})
	n.start("a", "b", "c")
	n.mendedVotes()
	n.nodes["c"].catalog.Raft().Fail(fmt.Errorf("append to the log failed, %w: %w", raftfsm.ErrWriteFailed, syscall.ENOSPC))
	select {
	case err := <-failed:
		if !errors.Is(err, ErrDiskFailed) || errors.Is(err, metadata.ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the node ends by %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the node does not end")
	}
	n.stop("c")
	n.start("c")
	n.mendedVotes()
}

// If all members fail at the same place, nobody gives up what he has stored.
func TestAllCatalogsFail(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		c.Failed = func(err error) { t.Errorf("node %s begins anew: %v", c.Node, err) }
	})
	n.start("a", "b", "c")
	n.catalogLeader().catalog.Raft().Fail(fmt.Errorf("entry 7: %w", wal.ErrLost)) // first: while it leads, it continues
	for _, node := range n.nodes {
		node.catalog.Raft().Fail(fmt.Errorf("entry 7: %w", wal.ErrLost))
	}
	for _, node := range n.nodes {
		if node.catalog.OthersGoOn() {
			t.Errorf("node %s takes the others for running", node.cfg.Node)
		}
	}
	n.stop("a", "b", "c")
	n.launch("a", "b", "c") // without a failed entry in their logs all go on
	n.ready("a", "b", "c")
}

// The only node of a cluster says what is damaged and keeps it as it is.
func TestDamagedCatalogOfOneNode(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) { c.Expect = 1 })
	n.start("a")
	n.nodes["a"].declare(t, "q", 1)
	poll(t, "the mark is written", func() error {
		for copyNo := range sealed.Copies {
			m, err := sealed.ReadCopy(filepath.Join(n.dir, "a"), "mark", copyNo)
			if voters, _ := strconv.Atoi(m.Get("catalog-voters")); err == nil && voters == 1 {
				return nil
			}
		}
		return errWaiting
	})
	n.stop("a")
	path := filepath.Join(n.dir, "a", datadir.CatalogDir, datadir.CatalogLog)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before = bytes.ReplaceAll(before, []byte("CurrentTerm"), []byte("BurrentTerm")) // in pages of the past, too
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := Start(context.Background(), n.config("a"))
		if !errors.Is(err, sealed.ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("error is %v", err)
		}
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file was changed: %v", err)
	}
}
