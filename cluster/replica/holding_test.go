package replica

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
)

// register makes other nodes known, which do not run.
func (h *testHost) register(nodes ...id.NodeID) {
	h.t.Helper()
	for i, n := range nodes {
		h.mustPropose(&catalog.RegisterNode{ID: n, Address: fmt.Sprintf("127.0.0.1:%d", 2+i), Epoch: 1, Store: id.StoreID("of " + n)})
	}
}

// shared declares a queue with members on several nodes.
func (h *testHost) shared(members ...id.NodeID) id.QueueUID {
	h.t.Helper()
	return h.mustPropose(&catalog.DeclareQueue{
		VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: members, Leader: members[0],
	}).UID
}

// opened waits until the member is open.
func (h *testHost) opened(uid id.QueueUID) {
	h.t.Helper()
	h.poll("the member is open", func() error {
		if h.Member(uid) == nil {
			return errWaiting
		}
		return nil
	})
}

// marked notes how far the log is, once it has something of a queue.
func (h *testHost) marked(uid id.QueueUID) {
	h.t.Helper()
	h.poll("the log has the member", func() error {
		if m := h.storage.Mark(); m != (wal.Mark{}) && h.storage.Has(uid.Group()) {
			return h.cfg.Dir.SetMark(datadir.Mark{Log: m})
		}
		return errWaiting
	})
}

// losesLog removes the log of the stopped host.
func (h *testHost) losesLog() {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.path, datadir.LogDir, "*.wal"))
	if err != nil || len(found) == 0 {
		h.t.Fatalf("no segments: %v", err)
	}
	for _, s := range found {
		if err := os.Remove(s); err != nil {
			h.t.Fatal(err)
		}
	}
}

// keepsClosed waits until the host has decided about its members, and checks which are lost.
func (h *testHost) keepsClosed(lost ...id.QueueUID) {
	h.t.Helper()
	h.poll("the view was followed", func() error { return h.Ready(h.views.View().Index()) })
	if got := h.LostMembers(); !slices.Equal(got, lost) {
		h.t.Errorf("lost members are %v, want %v", got, lost)
	}
	for _, uid := range lost {
		if h.Member(uid) != nil {
			h.t.Errorf("the member of %s is open without its log: it may vote again", uid)
		}
	}
}

// RE-9: a member whose log is lost is kept closed, whatever is left of it beside the log.
func TestMemberWithoutItsLog(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(h *testHost, uid id.QueueUID) error{
		"nothing else": func(*testHost, id.QueueUID) error { return nil },
		"a directory without a snapshot": func(h *testHost, uid id.QueueUID) error {
			return os.MkdirAll(filepath.Join(h.cfg.Dir.Queue(uid), datadir.SnapshotsDir), 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, nil)
			h.register("b", "c")
			uid := h.shared("a", "b", "c")
			h.opened(uid)
			h.marked(uid)
			if err := leave(h, uid); err != nil {
				t.Fatal(err)
			}
			h.stop()
			h.losesLog()
			h.start(nil)
			h.keepsClosed(uid)
		})
	}
}
