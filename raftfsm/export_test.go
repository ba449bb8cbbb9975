package raftfsm

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// While a member exports, it keeps what the state of that moment refers to, whatever the machine drops and however
// often the log is compacted; afterwards it drops it.
func TestExportKeepsBodies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(m *member, cfg *Config[reply, string]) {
		snapshotOften(m, cfg)
		cfg.BodyCache = NewBodyCache(0)
	})
	for i := range 60 {
		c.propose(fmt.Sprint(i), fmt.Sprint("body ", i))
	}
	c.equal()
	m := c.follower()
	x, err := m.group.Export(t.Context(), m.group.Stats().AppliedIndex)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	refs := m.refs()
	if len(refs) < 60 {
		t.Fatalf("%d bodies", len(refs))
	}
	state := x.State().AppendSnapshot(nil)
	c.propose("keep 1", "kept")
	for i := range 200 {
		c.propose(fmt.Sprint("later ", i), "later")
	}
	c.propose("keep 1", "kept")
	c.equal()
	if err := m.group.Snapshot(); err != nil {
		t.Fatal(err)
	}
	for i := len(refs) - 1; i >= 0; i-- { // in another order than that of the log
		if _, err := x.Body(refs[i]); err != nil {
			t.Fatalf("body %v: %v", refs[i], err)
		}
	}
	if string(x.State().AppendSnapshot(nil)) != string(state) {
		t.Error("the exported state has changed")
	}
	other := c.leader()
	if err := other.group.Snapshot(); err != nil {
		t.Fatal(err)
	}
	until(t, "another member drops the bodies", func() bool {
		_, err := other.group.Body(refs[10])
		return errors.Is(err, raft.ErrLogNotFound)
	})
	x.Close()
	x.Close() // has no effect
	until(t, "the member drops the bodies when the export has ended", func() bool {
		_, err := m.group.Body(refs[10])
		return errors.Is(err, raft.ErrLogNotFound)
	})
}

// An export waits until the member has applied what it must contain, and gives up with its context.
func TestExportWaits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	c.propose("one", "body")
	c.equal()
	m := c.follower()
	index := m.group.Stats().AppliedIndex
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := m.group.Export(ctx, index+1000)
		failed <- err
	}()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("it fails with %v", err)
	}
	exported := make(chan *Export, 1)
	go func() {
		x, err := m.group.Export(t.Context(), index+1)
		if err != nil {
			t.Error(err)
		}
		exported <- x
	}()
	c.propose("two", "body")
	if x := <-exported; x != nil {
		if x.Index <= index {
			t.Errorf("it has entry %d, want at least %d", x.Index, index+1)
		}
		x.Close()
	}
	group := m.group
	c.close(m)
	if _, err := group.Export(t.Context(), 0); !errors.Is(err, ErrStopped) {
		t.Errorf("a member that is closed: %v", err)
	}
}
