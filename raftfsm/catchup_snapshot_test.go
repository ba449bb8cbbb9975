package raftfsm

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// lateEntries is a transport whose first entries behind a snapshot wait until the test lets them go on.
type lateEntries struct {
	*spoiled

	installed atomic.Pointer[raft.ServerID] // who has got a snapshot
	begin     func()                        // the entries wait
	then      <-chan struct{}               // closed when they may go on
	end       <-chan struct{}
}

func (l *lateEntries) InstallSnapshot(to raft.ServerID, at raft.ServerAddress, args *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	err := l.spoiled.InstallSnapshot(to, at, args, resp, data)
	if err == nil && resp.Success {
		l.installed.Store(&to)
	}
	return err
}

func (l *lateEntries) AppendEntries(to raft.ServerID, at raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if n := l.installed.Load(); n != nil && *n == to && len(req.Entries) > 0 {
		l.begin()
		select {
		case <-l.then:
		case <-l.end:
			return errCut
		}
	}
	return l.spoiled.AppendEntries(to, at, req, resp)
}

// A member gets one snapshot, however many entries and snapshots come while it is sent, and while the member receives the
// entries behind it. After that they go.
func TestSnapshotIsSentOnce(t *testing.T) {
	t.Parallel()
	h := newHalt(t)
	waits, then := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(waits) })
	c := newCluster(t, 3, func(m *member, config *Config[reply, string]) {
		snapshotOften(m, config)
		config.Transport = &lateEntries{
			spoiled: &spoiled{m.transport, h.spoil}, begin: begin, then: then, end: t.Context().Done(),
		}
	})
	more := func(what string) {
		t.Helper()
		for i := range 3 * maxAppendEntries {
			c.propose(fmt.Sprint(what, i), fmt.Sprint("body ", i))
		}
		if err := c.leader().group.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	c.propose("first", "body")
	c.equal()
	away := c.follower()
	c.close(away)
	more("away ")
	leader := c.leader()
	sent := leader.group.snaps.latest().index
	c.open(away)
	h.wait()
	more("sent ")
	h.goOn(nil)
	receive(t, "entries behind the snapshot to be sent", waits)
	more("received ")
	if first := leader.group.Stats().FirstIndex; first > sent {
		t.Errorf("the log begins with entry %d, the snapshot is of entry %d", first, sent)
	}
	close(then)
	c.equal()
	if n := h.tries.Load(); n != 1 {
		t.Errorf("%d snapshots were sent", n)
	}
	until(t, "the log to be shortened", func() bool {
		more("after ")
		return c.leader().group.Stats().FirstIndex > sent
	})
}

// While the disk is low a member that gets a snapshot keeps nothing in the log, and never what another leadership has sent.
func TestLogIsShortenedBesideSentSnapshot(t *testing.T) {
	t.Parallel()
	var scarce atomic.Bool
	c := newCluster(t, 1, func(_ *member, config *Config[reply, string]) { config.Scarce = scarce.Load })
	for i := range 50 {
		c.propose(fmt.Sprint(i), "body")
	}
	g := c.leader().group
	if err := g.Snapshot(); err != nil {
		t.Fatal(err)
	}
	c.propose("last")
	newest, s := g.snaps.latest().index, g.Stats()
	needed := func(what string, want uint64) {
		t.Helper()
		if got := g.needed(s.LastIndex); got != want {
			t.Errorf("%s: entries from %d on are needed, want from %d on", what, got, want)
		}
	}
	needed("nothing is sent", newest)
	g.out.catchUps.begin("n2", &raft.InstallSnapshotRequest{LastLogIndex: 5, Term: s.Term})
	needed("one was sent", 5)
	scarce.Store(true)
	needed("the disk is low", newest)
	scarce.Store(false)
	g.out.catchUps.begin("n2", &raft.InstallSnapshotRequest{LastLogIndex: 5, Term: s.Term - 1})
	needed("by an earlier leadership", newest)
	_, r, err := g.snaps.Open(g.snaps.latest().id())
	if err != nil {
		t.Fatal(err)
	}
	c.propose("one more")
	if err := g.Snapshot(); err != nil {
		t.Fatal(err)
	}
	needed("it is being sent", newest)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	needed("it is not sent any more", g.snaps.latest().index)
}

// sized is a log of entries of the same size.
type sized struct {
	Storage
	each int64
}

func (s sized) Newest(_ uint64, most int64) (entries uint64, bytes int64) {
	return uint64(most / s.each), most
}

// The entries that stay for a member are bounded by their bytes.
func TestSentSnapshotKeeps(t *testing.T) {
	t.Parallel()
	log := sized{each: 1 << 20}
	const fit = catchUpBytes >> 20
	for _, x := range []struct {
		sent sentSnapshot
		last uint64
		want bool
	}{
		{sentSnapshot{100, 0}, 100, true},
		{sentSnapshot{100, 0}, 100 + fit, true},
		{sentSnapshot{100, 0}, 100 + fit + 1, false},
		{sentSnapshot{100, 2 * catchUpBytes}, 100 + fit + 1, true},
		{sentSnapshot{100, 2 * catchUpBytes}, 100 + 2*fit + 1, false},
		{sentSnapshot{100, 0}, 99, false},
	} {
		if got := x.sent.keeps(log, x.last); got != x.want {
			t.Errorf("%+v, last entry %d: %v", x.sent, x.last, got)
		}
	}
}

// A member is caught up once it lacks few entries. One that stores nothing is not waited for.
func TestCatchUpsEnd(t *testing.T) {
	t.Parallel()
	var c catchUps
	is := func(what string, want int) {
		t.Helper()
		if got := len(c.all(func(uint64) bool { return true })); got != want || c.some.Load() != (want > 0) {
			t.Errorf("%s: %d catch up, want %d", what, got, want)
		}
	}
	is("none has begun", 0)
	c.begin("n2", &raft.InstallSnapshotRequest{LastLogIndex: 100, Term: 1})
	c.begin("n3", &raft.InstallSnapshotRequest{LastLogIndex: 100, Term: 1})
	is("two have begun", 2)
	c.stored("n2", 200, 1000)
	is("one has stored some", 2)
	c.stored("n2", 1000-maxAppendEntries, 1000)
	is("it has nearly all", 1)
	c.stored("n2", 1000, 1000)
	c.of["n3"].moved = time.Now().Add(-catchUpRest - time.Second)
	is("the other one stores nothing", 0)
}
