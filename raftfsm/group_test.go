package raftfsm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

func TestThreeMembersApplyTheSame(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	last := 0
	for i := range 50 {
		r := c.propose(fmt.Sprintf("c%d", i), fmt.Sprintf("body %d", i), "second")
		// A change of leaders on a busy machine adds Lead commands, and leaves a command
		// without its reply.
		if r.Seq != 0 && r.Seq <= last || r.Header != fmt.Sprintf("c%d", i) {
			t.Fatalf("reply %+v to command %d, after %d", r, i, last)
		}
		last = max(last, r.Seq)
	}
	c.equal()
	for _, m := range c.members {
		if n := m.readable(t); n != 100 {
			t.Errorf("%s refers to %d bodies instead of 100", m.node, n)
		}
		members, err := m.group.Members()
		if err != nil || !slices.Equal(members, []id.NodeID{"n1", "n2", "n3"}) {
			t.Errorf("members %v, %v", members, err)
		}
	}
	l := c.leader()
	if err := l.group.Barrier(t.Context()); err != nil {
		t.Error(err)
	}
	s := l.group.Stats()
	if s.Leader != l.node || s.Term == 0 || s.AppliedIndex == 0 || s.AppliedIndex > s.LastIndex || s.Commands < 51 ||
		s.FirstIndex != 1 || s.PendingBytes != 0 || s.State != "Leader" {
		t.Errorf("stats %+v", s)
	}
	if _, err := l.group.Body(BodyRef{Index: 1}); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("body of the configuration's entry: %v", err)
	}
	if err := l.group.Bootstrap([]id.NodeID{"n1"}); err != nil {
		t.Errorf("second bootstrap: %v", err)
	}
}

// Effects are acted on by the member that leads, from its own Lead command on, and by no
// other; the Lead command is the first of its term.
func TestEffectsGoToTheLeaderAlone(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil) // no election but the one that is asked for
	c.propose("a")
	first := c.leader()
	c.equal()
	until(t, "the first leader to step down", func() bool {
		return !first.group.Leading() || first.group.TransferLeadership(t.Context(), "") == nil && !first.group.Leading()
	})
	c.propose("b")
	second := c.leader()
	if second == first {
		t.Fatal("leadership was not transferred")
	}
	c.equal()
	until(t, "the effects, which follow the reply", func() bool { return slices.Contains(second.effects.all(), "b") })
	for _, m := range c.members {
		log := m.effects.all()
		var want string
		switch m {
		case first:
			want = "leading true, lead " + string(m.node) + " *, a, leading false"
		case second:
			want = "leading true, lead " + string(m.node) + " *, b"
		}
		for i, l := range log {
			if strings.HasPrefix(l, "lead "+string(m.node)+" ") {
				log[i] = "lead " + string(m.node) + " *"
			}
		}
		if got := strings.Join(log, ", "); got != want {
			t.Errorf("%s: effects %q, want %q", m.node, got, want)
		}
	}
	var headers []string
	second.group.Read(func() {
		for _, r := range second.machine.records {
			headers = append(headers, strings.Fields(r.Header)[0])
		}
	})
	if !slices.Equal(headers, []string{"lead", "a", "lead", "b"}) {
		t.Errorf("commands %q", headers)
	}
}

// ReadActed sees nothing whose effects the Effector does not have, also if it is called between the two, or if there are
// none because the machine has failed.
func TestReadActed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(m *member, _ *Config[reply, string]) { m.machine.panics = "bad" })
	l := c.leader()
	type look struct {
		newest string
		acted  bool
	}
	looks := make(chan look, 2)
	read := func() {
		l.group.ReadActed(func() {
			newest := l.machine.records[len(l.machine.records)-1].Header
			looks <- look{newest, slices.Contains(l.effects.all(), newest)}
		})
	}
	early := 0
	l.group.Submit(command("a"), func(_ reply, err error) {
		read()
		if early = len(looks); err != nil {
			t.Error(err)
		}
	})
	if got := <-looks; early > 0 || got != (look{"a", true}) {
		t.Errorf("called %d times too early, then it saw %+v", early, got)
	}
	read()
	if got := <-looks; got != (look{"a", true}) {
		t.Errorf("of a group at rest it saw %+v", got)
	}
	if _, err := l.group.Propose(t.Context(), command("bad")); !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("bad: %v", err)
	}
	until(t, "the group to fail", func() bool { return l.group.Failed() != nil })
	read()
	if got := <-looks; got != (look{"a", true}) {
		t.Errorf("of a group that has failed it saw %+v", got)
	}
}

// A machine without effects leads once everything of older terms is applied.
func TestMachineWithoutLeadCommand(t *testing.T) {
	t.Parallel()
	c := newDriven(t, func(m *member, _ *Config[reply, string]) { m.machine.leads = false })
	c.propose("a")
	if got := c.leader().headers(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("commands %q", got)
	}
	until(t, "the effects, which follow the reply", func() bool {
		return slices.Equal(c.leader().effects.all(), []string{"leading true", "a"})
	})
}

func TestSubmitKeepsOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ *member, config *Config[reply, string]) {
		config.MaxBatchCommands, config.MaxInFlight = 7, 5
	})
	// On a busy machine the lead may be lost on the way, which is not what is looked at.
	until(t, "a leader that answers all", func() bool { return keepsOrder(t, c) })
}

// keepsOrder submits commands to the leader and checks the order of replies and log. It
// returns false if the leader has not kept its lead.
func keepsOrder(t *testing.T, c *testCluster) bool {
	t.Helper()
	const n = 3000
	g := c.leader().group
	var mu sync.Mutex
	var order []string
	kept := true
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		g.Submit(command(fmt.Sprint(i)), func(r reply, err error) {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			var lost *NotLeaderError
			if errors.Is(err, ErrUnknownOutcome) || errors.As(err, &lost) {
				kept = false
			} else if err != nil {
				t.Errorf("command %d: %v", i, err)
			}
			order = append(order, r.Header)
		})
	}
	wg.Wait()
	if !kept {
		return false
	}
	if len(order) != n || !slices.IsSortedFunc(order, func(a, b string) int { return len(a)*10 - len(b)*10 + strings.Compare(a, b) }) {
		t.Errorf("%d replies out of order", len(order))
	}
	if got := c.leader().headers(); len(got) < n || !slices.Equal(got[len(got)-n:], order) {
		t.Error("log order differs from the order of replies")
	}
	return true
}

func TestBackPressure(t *testing.T) {
	t.Parallel()
	c := newDriven(t, func(_ *member, config *Config[reply, string]) { config.MaxPendingBytes = 10_000 })
	l := c.leader()
	c.disconnect(l) // nothing more is committed
	body := strings.Repeat("x", 4000)
	const submitted, refused = 5, 3
	results := make(chan error, submitted)
	for range submitted {
		l.group.Submit(command("c", body), func(_ reply, err error) { results <- err })
	}
	for i := range submitted {
		if i == refused { // the rest waits for a majority
			if err := l.group.StepDown(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-results; errors.Is(err, ErrBusy) != (i < refused) || err == nil {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	until(t, "no bytes are pending", func() bool { return l.group.Stats().PendingBytes == 0 })
}

func TestLargeCommands(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(_ *member, config *Config[reply, string]) { config.MaxBatchBytes = 1000 })
	body := strings.Repeat("x", 100_000)
	c.propose("alone", body, body)
	l := c.leader()
	l.readable(t)
	var tooLarge *TooLargeError
	_, err := l.group.Propose(t.Context(), Command{Bodies: [][]byte{make([]byte, MaxCommandBytes)}})
	if !errors.As(err, &tooLarge) || tooLarge.Most != MaxCommandBytes {
		t.Errorf("error %v", err)
	}
}

func TestFollowerNamesTheLeader(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	l, f := c.leader(), c.follower()
	until(t, "the follower to know the leader", func() bool { n, _ := f.group.Leader(); return n == l.node })
	_, err := f.group.Propose(t.Context(), command("x"))
	var not *NotLeaderError
	if !errors.As(err, &not) || not.Leader != l.node || not.Group != testGroup {
		t.Errorf("error %v", err)
	}
	if err := f.group.Barrier(t.Context()); !errors.As(err, &not) {
		t.Errorf("barrier: %v", err)
	}
	if err := f.group.TransferLeadership(t.Context(), ""); !errors.As(err, &not) {
		t.Errorf("transfer: %v", err)
	}
	if err := l.group.TransferLeadership(t.Context(), "n9"); err == nil || !strings.Contains(err.Error(), `"n9"`) {
		t.Errorf("transfer to an outsider: %v", err)
	}
}

// A member whose build cannot read a committed command stops before it and keeps its log; the
// others continue. Opened by a build that can, it carries on and is equal to them.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	c.propose("before", "body")
	c.equal()
	l := c.leader()
	i := slices.IndexFunc(c.members, func(m *member) bool { return m != l })
	f := c.members[i]
	f.group.Read(func() { f.machine.foreign = "newer" })
	c.propose("newer")
	c.propose("after")
	until(t, "the follower to stop", func() bool { return f.group.Failed() != nil })
	err := f.group.Failed()
	if !errors.Is(err, ErrUnreadable) || Damaged(err) || !strings.Contains(err.Error(), "entry ") {
		t.Errorf("failed with %v", err)
	}
	if got := f.headers(); !slices.Equal(got, []string{"before"}) {
		t.Errorf("it has applied %q", got)
	}
	if at := f.group.Stats().AppliedIndex; at >= l.group.Stats().AppliedIndex-1 {
		t.Errorf("it counts entries up to %d as applied", at)
	}
	c.close(f)
	c.open(f)
	c.propose("last")
	c.equal()
	if got := f.headers(); !slices.Equal(got, []string{"before", "newer", "after", "last"}) {
		t.Errorf("with another build it has %q", got)
	}
}

// Heads that are whole and of another version are not taken for damaged.
func TestUnreadableForms(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b []byte){
		"version": func(b []byte) { b[0]++ }, "flags": func(b []byte) { b[1] |= 0x80 }, "reserved": func(b []byte) { b[3] = 1 },
	} {
		b := appendEntry(nil, testGroup, entryHead{term: 1}, []Command{{Header: []byte("h")}})
		change(b)
		if _, err := decodeEntry(testGroup, b); !Damaged(err) || errors.Is(err, ErrUnreadable) {
			t.Errorf("entry with a flipped bit, %s: %v", name, err)
		}
		fixHeadSum(b)
		if _, err := decodeEntry(testGroup, b); Damaged(err) || !errors.Is(err, ErrUnreadable) {
			t.Errorf("entry of another build, %s: %v", name, err)
		}
	}
	h := snapshotHead{group: testGroup, index: 5, term: 1}
	b := h.append(nil)
	b[4]++
	if _, err := readSnapshotHead(bytes.NewReader(b)); !Damaged(err) || errors.Is(err, ErrUnreadable) {
		t.Errorf("snapshot with a flipped bit: %v", err)
	}
	binary.LittleEndian.PutUint32(b[len(b)-sumBytes:], crc32.Checksum(b[:len(b)-sumBytes], castagnoli()))
	if _, err := readSnapshotHead(bytes.NewReader(b)); Damaged(err) || !errors.Is(err, ErrUnreadable) {
		t.Errorf("snapshot of another build: %v", err)
	}
}

// A leader that is cut off answers what it had in flight as unknown, each command once,
// and what nobody but it had is gone when it comes back.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	c.propose("before")
	old := c.leader()
	c.disconnect(old)
	var answers [20]atomic.Int32
	var wg sync.WaitGroup
	for i := range answers {
		wg.Add(1)
		old.group.Submit(command(fmt.Sprintf("lost %d", i)), func(_ reply, err error) {
			if answers[i].Add(1) > 1 {
				t.Errorf("command %d was answered twice", i)
				return
			}
			defer wg.Done()
			var not *NotLeaderError
			if !errors.Is(err, ErrUnknownOutcome) && !errors.As(err, &not) {
				t.Errorf("command %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	until(t, "the old leader to stop leading", func() bool { return !old.group.Leading() })
	c.propose("after")
	c.connect(old)
	c.equal()
	if got := old.headers(); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("commands %q", got)
	}
}

// Commands that are resent until they are answered for certain are there after any
// number of changes of the leader, in order of their first appearance.
func TestResendOverChangesOfLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	const n = 200
	for i := range n {
		if i%50 == 25 {
			l := c.leader()
			_ = l.group.TransferLeadership(t.Context(), "") // may fail: the next one will not
		}
		for {
			_, err := c.leader().group.Propose(t.Context(), command(fmt.Sprintf("%03d", i)))
			if err == nil {
				break
			}
			var not *NotLeaderError
			if !errors.Is(err, ErrUnknownOutcome) && !errors.As(err, &not) {
				t.Fatal(err)
			}
		}
	}
	c.equal()
	got := c.leader().headers()
	if unique := slices.Compact(slices.Clone(got)); len(unique) != n || !slices.IsSorted(unique) {
		t.Errorf("%d different commands instead of %d", len(unique), n)
	}
}

func TestRestartFromDisk(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	for i := range 20 {
		c.propose(fmt.Sprint(i), "body")
	}
	c.equal()
	for _, m := range c.members {
		c.close(m)
	}
	for _, m := range c.members {
		c.open(m)
	}
	c.leader()
	c.propose("after")
	c.equal()
	for _, m := range c.members {
		if got := m.headers(); len(got) != 21 || got[20] != "after" {
			t.Errorf("%s: commands %q", m.node, got)
		}
		m.readable(t)
		for _, l := range m.effects.all() {
			if !strings.HasPrefix(l, "lead") && l != "after" {
				t.Errorf("%s acted on %q, which is replay", m.node, l)
			}
		}
	}
}

func TestChangedIsClosed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	changed := l.group.Changed()
	c.disconnect(l)
	select {
	case <-changed:
	case <-time.After(deadline):
		t.Fatal("nobody reported the lost leadership")
	}
}

func TestCloseAnswersEverything(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	c.propose("a")
	l := c.leader()
	c.disconnect(l)
	const n = 100
	errs := make(chan error, n)
	for range n {
		l.group.Submit(command("c"), func(_ reply, err error) { errs <- err })
	}
	if err := l.group.Close(); err != nil {
		t.Fatal(err)
	}
	for range n {
		err := <-errs
		var not *NotLeaderError
		if !errors.Is(err, ErrStopped) && !errors.Is(err, ErrUnknownOutcome) && !errors.As(err, &not) {
			t.Fatal(err)
		}
	}
	if _, err := l.group.Propose(t.Context(), command("late")); !errors.Is(err, ErrStopped) {
		t.Errorf("after Close: %v", err)
	}
	if err := l.group.Snapshot(); !errors.Is(err, ErrStopped) {
		t.Errorf("snapshot after Close: %v", err)
	}
	l.group = nil
}

func TestProposeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newDriven(t, nil)
	l := c.leader()
	c.disconnect(l)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.group.Propose(ctx, command("x")); !errors.Is(err, context.Canceled) && !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("error %v", err)
	}
}

// An entry is void in a term other than that in which it was proposed, on every member.
func TestEntryOfAnotherTermIsVoid(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	l := c.leader()
	before := len(l.headers())
	data := appendEntry(nil, testGroup, entryHead{term: 1 << 40, seq: 1}, []Command{command("void")})
	if err := l.group.raft.Load().Apply(data, 0).Error(); err != nil {
		t.Fatal(err)
	}
	c.propose("valid")
	if got := l.headers()[before:]; !slices.Equal(got, []string{"valid"}) {
		t.Errorf("commands %q", got)
	}
}

func TestConfigFaultsAreAllNamed(t *testing.T) {
	c := Config[reply, string]{MaxInFlight: 1000, MaxBatchBytes: -1, HeartbeatTimeout: 2, ElectionTimeout: 1, Snapshots: raft.NewInmemSnapshotStore()}
	_, err := Open(c)
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"Group", "Node", "Machine", "Storage", "Transport", "MaxInFlight", "MaxBatchBytes", "ElectionTimeout", "Snapshots"} {
		if !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}

func TestBodyCacheBudget(t *testing.T) {
	set := func(n int) *bodySet {
		e, err := decodeEntry(testGroup, appendEntry(nil, testGroup, entryHead{}, []Command{{Bodies: [][]byte{bytes.Repeat([]byte("x"), n)}}}))
		if err != nil {
			t.Fatal(err)
		}
		return e.bodySet()
	}
	one := set(1000)
	c := NewBodyCache(3 * one.memoryBytes())
	for i := range uint64(5) {
		c.add(cacheKey{1, i}, set(1000))
	}
	if c.get(cacheKey{1, 1}) != nil || c.get(cacheKey{1, 2}) == nil {
		t.Error("not the oldest was dropped")
	}
	c.add(cacheKey{2, 9}, set(1000)) // drops 3, since 2 was just used
	if c.get(cacheKey{1, 3}) != nil || c.get(cacheKey{1, 2}) == nil {
		t.Error("not the least recently used was dropped")
	}
	c.add(cacheKey{2, 10}, set(100_000))
	if c.get(cacheKey{2, 10}) != nil {
		t.Error("an entry above the budget was kept")
	}
	c.forget(1)
	if s := c.Stats(); s.Entries != 1 || s.Bytes != one.memoryBytes() || s.Hits != 2 || s.Misses != 3 {
		t.Errorf("stats %+v", s)
	}
}
