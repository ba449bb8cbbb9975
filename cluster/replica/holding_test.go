package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
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

// marked records how far the log is, once it has something of a queue.
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

// ledByC answers in place of node "c", which leads all queues and gives bases to members that join.
func ledByC(c *Config) {
	c.Transport = &otherNodes{Transport: c.Transport, nodes: map[id.NodeID]otherNode{"c": {leads: true, base: raftfsm.Base{Term: 9, Index: 30}}}}
}

// joins begins a change by which this node joins a queue, waits until its member is open, and returns the change.
func (h *testHost) joins(uid id.QueueUID) (change uint64) {
	h.t.Helper()
	change = h.mustPropose(&catalog.BeginMemberChange{UID: uid, Join: "a"}).Index
	h.opened(uid)
	return change
}

// leaves takes this node out of a queue's members, and waits until nothing of its member is left.
func (h *testHost) leaves(uid id.QueueUID) {
	h.t.Helper()
	change := h.mustPropose(&catalog.BeginMemberChange{UID: uid, Leave: "a"}).Index
	h.mustPropose(&catalog.CompleteMemberStep{UID: uid, Change: change, Step: catalog.StepLeft})
	h.poll("it has left", func() error {
		if h.storage.HasQueue(uid) {
			return errWaiting
		}
		return nil
	})
}

// joinedCopies returns the paths of the copies of the file that says by which change a member joins.
func (h *testHost) joinedCopies(uid id.QueueUID) []string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.cfg.Dir.Queue(uid), "joined.*"))
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// tearJoined makes that file unreadable.
func (h *testHost) tearJoined(uid id.QueueUID) {
	h.t.Helper()
	all := h.joinedCopies(uid)
	if len(all) != sealed.Copies {
		h.t.Fatalf("copies are %q", all)
	}
	for _, path := range all {
		if err := os.WriteFile(path, []byte("torn"), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
}

// RE-9: a member that joins may have got its vote. So it is not opened anew once it has begun: neither without its log,
// whether that is noticed by the mark or not, nor if nobody knows by which change it joins.
func TestJoiningMemberThatIsDamaged(t *testing.T) {
	t.Parallel()
	nothing := func(*testHost, id.QueueUID) {}
	for name, c := range map[string]struct {
		before, after func(h *testHost, uid id.QueueUID)
	}{
		"log lost below a mark": {(*testHost).marked, func(h *testHost, _ id.QueueUID) { h.losesLog() }},
		"log lost":              {nothing, func(h *testHost, _ id.QueueUID) { h.losesLog() }},
		"change unreadable":     {nothing, (*testHost).tearJoined},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, ledByC)
			h.register("b", "c")
			uid := h.shared("b", "c")
			h.joins(uid)
			c.before(h, uid)
			h.stop()
			c.after(h, uid)
			h.start(ledByC)
			h.keepsClosed(uid)
			if n := len(h.joinedCopies(uid)); n != sealed.Copies {
				t.Errorf("%d copies say by which change it joins: it was deleted", n)
			}
		})
	}
}

// By which change a member has joined does not matter once it has.
func TestJoinedMemberWithoutItsChange(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, ledByC)
	h.register("b", "c")
	uid := h.shared("b", "c")
	change := h.joins(uid)
	h.stop()
	h.tearJoined(uid)
	h.mustPropose(&catalog.CompleteMemberStep{UID: uid, Change: change, Step: catalog.StepJoined})
	h.start(func(c *Config) {
		ledByC(c)
		g, err := h.storage.Group(uid.Group())
		if err == nil { // else it would be one that has forgotten all
			err = errors.Join(g.StoreLog(&raft.Log{Index: 1, Term: 9, Type: raft.LogNoop}), g.Sync())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	h.opened(uid)
	if lost := h.LostMembers(); len(lost) > 0 {
		t.Errorf("lost members are %v", lost)
	}
}

// What a member has begun by an earlier change is deleted, and the member joins anew: also if the node was killed when the
// log had a record of the member, and its files did not say yet what it is.
func TestJoiningMemberOfAnEarlierChange(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, ledByC)
	h.register("b", "c")
	uid := h.shared("b", "c")
	again := func(first uint64) (second uint64) {
		t.Helper()
		h.start(ledByC)
		h.opened(uid)
		if second = h.Member(uid).Joined(); second <= first {
			t.Errorf("the member is of change %d, the one before was %d", second, first)
		}
		if lost := h.LostMembers(); len(lost) > 0 {
			t.Errorf("lost members are %v", lost)
		}
		return second
	}
	h.poll("it is ready, so that it has deleted what is of no queue", func() error { return h.Ready(h.views.View().Index()) })
	if err := h.storage.Begin(uid); err != nil || !h.storage.Has(uid.Group()) {
		t.Fatalf("the log has no record of the member: %v", err)
	}
	h.stop()
	h.mustPropose(&catalog.BeginMemberChange{UID: uid, Join: "a"})
	first := again(0)
	h.stop()
	h.mustPropose(&catalog.CancelMemberChange{UID: uid, Change: first})
	h.mustPropose(&catalog.CompleteMemberStep{UID: uid, Change: first, Step: catalog.StepCancelled})
	h.mustPropose(&catalog.BeginMemberChange{UID: uid, Join: "a"})
	again(first)
}

// lateCatalog has registered the node at an index that the view comes to later.
type lateCatalog struct {
	*testHost
	at uint64
}

// Registered implements Catalog.
func (c lateCatalog) Registered() uint64 { return c.at }

// RE-9: a node whose view is from before its member left, and joined again, does not open it as a member since the
// declaration if it cannot read by which change it joins: it has a base then, and may not begin the group.
func TestOldViewOfJoiningMember(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, ledByC)
	h.register("b", "c")
	uid := h.shared("a", "b", "c")
	h.opened(uid)
	old := h.catalogView()
	h.leaves(uid)
	h.joins(uid)
	h.stop()
	h.tearJoined(uid)
	h.catalogMu.Lock()
	at := h.catalog.View().Index()
	h.views, h.behind = metadata.NewViews(old), make(chan struct{})
	h.catalogMu.Unlock()
	h.start(func(c *Config) {
		ledByC(c)
		c.Catalog = lateCatalog{h, at}
	})
	h.poll("it says what it waits for", func() error {
		if err := h.Ready(old.Index()); err == nil || !strings.Contains(err.Error(), "waits for a newer view") {
			return fmt.Errorf("it says: %w", err)
		}
		return nil
	})
	if h.Member(uid) != nil {
		t.Error("it has opened its member")
	}
	h.catchUp()
	h.poll("it is kept closed", func() error {
		if !slices.Equal(h.LostMembers(), []id.QueueUID{uid}) {
			return errWaiting
		}
		return nil
	})
}

// A member that hibernates while its node does not know yet that it has joined is opened when its queue changes, not deleted.
func TestSleeperThatJoins(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, ledByC)
	h.register("b", "c")
	uid := h.shared("b", "c")
	h.joins(uid)
	h.closeHidden(h.hides(uid, false))
	r, _ := h.views.View().QueueByUID(uid)
	if d := h.due(r, true); d != dutyOpen {
		t.Errorf("duty %d, want %d", d, dutyOpen)
	}
}
