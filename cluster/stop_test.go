package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/wal/vfs"
)

// Close reports each part that it is about to wait for, once and in order.
func TestPhasesOfStop(t *testing.T) {
	t.Parallel()
	var reported []StopPhase
	n := newTestNodes(t, func(c *Config) {
		c.Expect, c.Stopping = 1, func(p StopPhase) { reported = append(reported, p) }
	})
	n.start("a")
	n.nodes["a"].declare(t, "q", 1)
	n.stop("a")
	want := []StopPhase{
		StopForwarders, StopOperations, StopQueues, StopGossip, StopGroups, StopCatalog, StopLinks, StopLog, StopLoops, StopDirectory,
	}
	if !slices.Equal(reported, want) {
		t.Errorf("reported %q, want %q", reported, want)
	}
}

// A disk that hangs while a node stops ends it as it would at any other time: the stop would wait for it for ever.
func TestDiskHangsAtStop(t *testing.T) {
	if testing.Short() {
		t.Skip("a disk must hang for seconds; run without -short")
	}
	t.Parallel()
	n, d, ended := startHangingNodes(t)
	a := n.nodes["a"]
	q := a.declare(t, "q", 3)
	n.transferTo(t, q, "a")
	hung, release := d.of(n, "a").HangAt(vfs.OpSync, 1)
	published := make(chan struct{})
	go func() {
		_ = a.tryPublish(t, q, "while it hangs") // the stop, or another leader, answers it in one way or the other
		close(published)
	}()
	<-hung
	closed := make(chan error, 1)
	go func() { closed <- a.Close(context.WithoutCancel(t.Context())) }()
	select {
	case err := <-ended:
		if !errors.Is(err, disk.ErrHangs) {
			t.Errorf("the node ends by %v", err)
		}
	case err := <-closed:
		t.Errorf("Close did not wait for the disk: %v", err)
		closed <- err
	case <-time.After(time.Minute):
		t.Error("the node waits for its disk, and nobody looks at it")
	}
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	<-published
}
