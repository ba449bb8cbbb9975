package raftfsm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// spoiled is a transport whose snapshots the test reads before the other side does. spoil
// learns of those that the other side begins to read, not of calls that find nobody.
type spoiled struct {
	*heartbeats
	spoil func(io.Reader) io.Reader
}

func (s *spoiled) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	from := sync.OnceValue(func() io.Reader { return s.spoil(data) })
	return s.heartbeats.InstallSnapshot(id, to, args, resp, readerFunc(func(p []byte) (int, error) {
		return from().Read(p)
	}))
}

var errCut = errors.New("the link was cut")

// cutAt gives out so many bytes, and then waits for what to do: it fails, or continues if that is nil.
func cutAt(r io.Reader, n int64, then func() error) io.Reader {
	then = sync.OnceValue(then) // raft reads on after a failure
	return io.MultiReader(io.LimitReader(r, n), readerFunc(func([]byte) (int, error) {
		if err := then(); err != nil {
			return 0, err
		}
		return 0, io.EOF
	}), r)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// halt is a place in the first transfer, the only one that it touches, where that stands
// still until the test lets it go on.
type halt struct {
	t       testing.TB
	tries   atomic.Int32 // transfers that began
	reached chan struct{}
	then    chan error
}

// haltBytes is where that place is.
const haltBytes = 8000

func newHalt(t testing.TB) *halt {
	h := &halt{t: t, reached: make(chan struct{}), then: make(chan error)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%d transfers began", h.tries.Load())
		}
	})
	return h
}

func (h *halt) spoil(r io.Reader) io.Reader {
	if h.tries.Add(1) > 1 {
		return r
	}
	return cutAt(r, haltBytes, func() error {
		close(h.reached)
		select {
		case err := <-h.then:
			return err
		case <-h.t.Context().Done(): // the test has failed: its members are to close
			return errCut
		}
	})
}

// wait waits until the transfer stands still.
func (h *halt) wait() {
	h.t.Helper()
	receive(h.t, "a transfer to get as far as it is to stand still", h.reached)
}

// goOn has it fail, or go on if err is nil.
func (h *halt) goOn(err error) {
	h.t.Helper()
	send(h.t, "the transfer that stands still to go on", h.then, err)
}

// behind starts a cluster in which one member is away until only a snapshot helps it.
func behind(t *testing.T, spoil func(io.Reader) io.Reader) (*testCluster, *member) {
	t.Helper()
	c := newCluster(t, 3, func(m *member, config *Config[reply, string]) {
		config.TrailingEntries = 10
		config.Transport = &spoiled{m.transport, spoil}
	})
	c.propose("first", "body")
	c.equal()
	away := c.follower()
	c.close(away)
	for i := range 100 {
		c.propose(fmt.Sprint(i), fmt.Sprintf("body %d", i), "x")
	}
	for _, m := range c.members {
		if m != away {
			if err := m.group.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c, away
}

// clean checks that a member has nothing of a snapshot that did not come whole.
func (m *member) clean(t *testing.T) {
	t.Helper()
	for _, name := range m.files(t) {
		if strings.HasSuffix(name, snapshotSuffix) {
			t.Errorf("%s has %s", m.node, name)
		}
	}
	if s := m.group.Stats(); s.SnapshotIndex != 0 {
		t.Errorf("%s has a snapshot of entry %d", m.node, s.SnapshotIndex)
	}
	if hs := m.headers(); len(hs) > 1 {
		t.Errorf("%s has %d commands", m.node, len(hs))
	}
}

// A transfer that breaks, wherever it does, leaves nothing behind and starts over.
func TestTransferBeginsAnewAfterEachCut(t *testing.T) {
	t.Parallel()
	offsets := []int64{streamHeadBytes + 1000, 10_000} // raft waits twice as long after each
	var tries atomic.Int32
	broken := make(chan struct{})
	c, away := behind(t, func(r io.Reader) io.Reader {
		n := int(tries.Add(1)) - 1
		if n >= len(offsets) {
			return r
		}
		return cutAt(r, offsets[n], func() error {
			if n == len(offsets)-1 {
				close(broken)
			}
			return errCut
		})
	})
	c.open(away)
	receive(t, "the last transfer that breaks", broken)
	// It crashes with bodies of the snapshot in its storage, and comes back.
	c.close(away)
	if names := away.files(t); len(names) > 0 && tries.Load() == int32(len(offsets)) {
		t.Errorf("files %v", names)
	}
	c.open(away)
	c.propose("after")
	c.equal()
	if n := away.readable(t); n != 201 {
		t.Errorf("%d bodies", n)
	}
}

// A snapshot that comes late, when its member has continued by entries, takes nothing back: the leader learns that
// the member has it, and what the member has stored stays stored.
func TestLateSnapshotTakesNothingBack(t *testing.T) {
	t.Parallel()
	c, away := behind(t, func(r io.Reader) io.Reader { return r })
	c.open(away)
	c.equal()
	c.propose("later", "body")
	c.propose("and later")
	c.equal()
	leader := c.leader()
	sent := leader.group.snaps.latest()
	before := away.group.Stats()
	if before.AppliedIndex <= sent.index {
		t.Fatalf("entry %d is applied, the snapshot is of entry %d", before.AppliedIndex, sent.index)
	}
	resend := func(term uint64) (resp raft.InstallSnapshotResponse, err error) {
		meta, r, err := leader.group.snaps.Open(sent.id())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }() // only read
		req := &raft.InstallSnapshotRequest{
			RPCHeader: leader.group.header(), SnapshotVersion: meta.Version, Term: term, Leader: []byte(leader.node),
			LastLogIndex: meta.Index, LastLogTerm: meta.Term, Size: meta.Size,
			Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex,
		}
		err = leader.transport.InstallSnapshot(raft.ServerID(away.node), raft.ServerAddress(away.node), req, &resp, r)
		return resp, err
	}
	if resp, err := resend(before.Term); err != nil || !resp.Success {
		t.Errorf("answer %+v, %v", resp, err)
	}
	// A newer term has to come to raft, which then finds that there is nothing to install.
	if resp, err := resend(before.Term + 1); err == nil && resp.Success {
		t.Errorf("installed for a newer term: %+v", resp)
	}
	if now := away.group.Stats(); now.AppliedIndex < before.AppliedIndex || now.LastIndex < before.LastIndex {
		t.Errorf("back from %+v to %+v", before, now)
	}
	var l raft.Log
	for i := sent.index + 1; i <= before.LastIndex; i++ {
		if err := away.storage.GetLog(i, &l); err != nil {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	c.propose("after")
	c.equal()
}

// While a transfer stands still the leader continues with its other follower, takes snapshots, and keeps the bodies
// that the transfer is to send. The member that receives serves nothing of it. When the sender dies, the next leader
// starts over.
func TestTransferThatStandsStill(t *testing.T) {
	t.Parallel()
	h := newHalt(t)
	c, away := behind(t, h.spoil)
	c.open(away)
	h.wait()
	leader := c.leader()
	sent := leader.group.snaps.latest()
	for i := range 100 {
		c.propose(fmt.Sprint("meanwhile ", i), "body")
	}
	c.propose("keep 5")
	if err := leader.group.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if now := leader.group.snaps.latest(); now.index <= sent.index || now.live.check() != nil {
		t.Fatalf("snapshot of entry %d after that of %d", now.index, sent.index)
	}
	err := sent.live.each(func(index uint64, _ []uint32) error {
		return leader.storage.Entry(index, new(raft.Log))
	})
	if err != nil {
		t.Fatalf("a body is gone that the transfer is to send: %v", err)
	}
	away.clean(t)
	for _, m := range []*member{leader, away} {
		if n := m.group.Stats().Transfers; n != 1 {
			t.Errorf("%s: %d transfers", m.node, n)
		}
	}
	c.disconnect(leader)
	h.goOn(errCut)
	until(t, "another leader", func() bool {
		for _, m := range c.members {
			if m != leader && m != away && m.group.Leading() {
				return true
			}
		}
		return false
	})
	until(t, "the member to have the state", func() bool { return len(away.headers()) == 5 })
	away.readable(t)
	until(t, "the transfers to end", func() bool {
		return leader.group.Stats().Transfers == 0 && away.group.Stats().Transfers == 0
	})
	// What the broken transfer held goes.
	until(t, "the old bodies to go", func() bool {
		return errors.Is(leader.storage.Entry(sentIndex(t, sent), new(raft.Log)), raft.ErrLogNotFound)
	})
}

// A leader knows how far the stream to each member is, so that one that stands still can be distinguished from one
// that continues.
func TestStreamIsCounted(t *testing.T) {
	t.Parallel()
	h := newHalt(t)
	c, away := behind(t, h.spoil)
	leader := c.leader()
	sent := func(what string, want int64) {
		t.Helper()
		for _, m := range c.members {
			expect := int64(0)
			if m == away {
				expect = want
			}
			if got := leader.group.Sent(m.node); got != expect {
				t.Errorf("%s: %d bytes were sent to %s, want %d", what, got, m.node, expect)
			}
		}
	}
	sent("before", 0)
	c.open(away)
	h.wait()
	counted := leader.group.snaps.sent()[0].bytes // which is done before anything is sent
	sent("it stands still", counted+haltBytes)
	h.goOn(nil)
	c.equal()
	until(t, "the transfer to end", func() bool { return leader.group.Stats().Transfers == 0 })
	sent("after it", 0)
}

// sentIndex returns the first entry of a live set.
func sentIndex(t *testing.T, f *snapshotFile) uint64 {
	t.Helper()
	for first := range f.live.spans() {
		return first
	}
	t.Fatal("nothing is live")
	return 0
}

// A transfer continues where the leader's newer snapshot has replaced the one that is sent.
func TestTransferGoesOnBehindANewerSnapshot(t *testing.T) {
	t.Parallel()
	h := newHalt(t)
	c, away := behind(t, h.spoil)
	c.open(away)
	h.wait()
	leader := c.leader()
	c.propose("keep 1", "one")
	if err := leader.group.Snapshot(); err != nil {
		t.Fatal(err)
	}
	h.goOn(nil)
	c.equal()
	if n := away.readable(t); n != 1 {
		t.Errorf("%d bodies", n)
	}
	if n := h.tries.Load(); n != 1 {
		t.Errorf("%d transfers", n)
	}
}

// What a transfer keeps in memory does not grow with what it sends: a frame of the stream
// on the sender's side, retainChunkBytes of bodies on the receiver's.
func TestTransferIsReadFrameByFrame(t *testing.T) {
	s, _ := snapshotFixture(t)
	_, r, err := s.Open(s.latest().id())
	if err != nil {
		t.Fatal(err)
	}
	sr, ok := r.(*snapshotReader)
	if !ok {
		t.Fatalf("reader is a %T", r)
	}
	whole, err := io.ReadAll(readerFunc(func(p []byte) (int, error) {
		n, err := sr.Read(p[:1])
		if len(sr.buf) > 256 {
			t.Fatalf("%d bytes wait to be sent", len(sr.buf))
		}
		return n, err
	}))
	if err != nil || r.Close() != nil {
		t.Fatal(err)
	}
	if again := readStream(t, s); !bytes.Equal(whole, again) {
		t.Error("the stream depends on how it is read")
	}
}
