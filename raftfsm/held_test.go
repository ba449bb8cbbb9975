package raftfsm

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// A group starts with more entries behind its snapshot than raft's channels take, and
// applies them once it knows their commit.
func TestManyEntriesBehindTheSnapshot(t *testing.T) {
	t.Parallel()
	const count = 130 * maxAppendEntries
	synctest.Test(t, func(t *testing.T) {
		l, err := wal.Open(vfs.NewMem(), wal.Config{SpaceInterval: -1, LowBytes: -1, FloorBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		s, err := l.Group(testGroup)
		if err != nil {
			t.Fatal(err)
		}
		logs := []*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(raft.Configuration{
			Servers: []raft.Server{{ID: "n1", Address: "n1"}},
		})}}
		for i := uint64(2); i <= count; i++ {
			data := appendEntry(nil, testGroup, entryHead{term: 1}, []Command{command("x")})
			logs = append(logs, &raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: data})
		}
		if err := errors.Join(s.SetUint64([]byte(keyTerm), 1), s.StoreLogs(logs)); err != nil {
			t.Fatal(err)
		}
		snaps, err := OpenSnapshots(filepath.Join(t.TempDir(), "snapshots"), s)
		if err != nil {
			t.Fatal(err)
		}
		m := &logMachine{}
		g, err := Open(Config[reply, string]{
			Group: testGroup, Node: "n1", Machine: m, Storage: s, Snapshots: snaps, Transport: newHeartbeats("n1"),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close() }()
		until(t, "all entries are applied", func() bool {
			var n int
			g.Read(func() { n = len(m.records) })
			return n == count-1
		})
	})
}

// A pipeline has no limit of time for a call. While results are held back for the disk it
// ends with its connection all the same: the next call fails, and Close leaves nobody behind.
func TestHeldPipelineEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &tap{}
		l, err := wal.Open(lateDir{vfs.NewMem(), p.delay}, wal.Config{SpaceInterval: -1, LowBytes: -1, FloorBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Group(testGroup)
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		d := newDurability(s, newStopwatch(0, nil), func(error) {})
		_, here := raft.NewInmemTransport("here")
		_, there := raft.NewInmemTransport("there")
		here.Connect("there", there)
		out := newGate(here, d, 0, func() bool { return false }, known{hear: func(command any) (any, error) { return command, nil }}, stop)
		go func() { // the follower is fast
			for range 2 {
				rpc := <-there.Consumer()
				rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
			}
		}()
		pipe, err := out.AppendEntriesPipeline("there", "there")
		if err != nil {
			t.Fatal(err)
		}
		p.close()
		for i := uint64(1); i <= 2; i++ {
			e := &raft.Log{Index: i, Term: 1}
			if err := s.StoreLog(e); err != nil {
				t.Fatal(err)
			}
			if _, err := pipe.AppendEntries(&raft.AppendEntriesRequest{Entries: []*raft.Log{e}}, &raft.AppendEntriesResponse{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		select {
		case <-pipe.Consumer():
			t.Error("a result passed although the disk hangs")
		default:
		}
		here.Disconnect("there")
		if _, err := pipe.AppendEntries(&raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{}); err == nil {
			t.Error("the link is down and the pipeline takes a call")
		}
		if err := pipe.Close(); err != nil {
			t.Fatal(err)
		}
		for r := range pipe.Consumer() {
			if !r.Response().Success { // raft reads no more
				break
			}
		}
		d.end(errShut) // what is held is answered; the disk still hangs
		synctest.Wait()
		p.release()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Held answers pass in the order of their calls, each when its own entry is durable.
func TestResultsPassWithTheDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := wal.Open(lateDir{vfs.NewMem(), func() time.Duration { return time.Millisecond }},
			wal.Config{SpaceInterval: -1, LowBytes: -1, FloorBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		s, err := l.Group(id.GroupID(7))
		if err != nil {
			t.Fatal(err)
		}
		d := newDurability(s, newStopwatch(0, nil), func(err error) { t.Error(err) })
		answers := make(chan raft.RPCResponse, 100)
		for i := uint64(1); i <= 20; i++ {
			if err := s.StoreLog(&raft.Log{Index: i, Term: 1}); err != nil {
				t.Fatal(err)
			}
			d.hold(s.Appended(), answers, raft.RPCResponse{Response: s.Appended()})
			time.Sleep(300 * time.Microsecond)
		}
		last := wal.Position(0)
		for range 20 {
			at, ok := (<-answers).Response.(wal.Position)
			if !ok || at <= last || at > s.Durable() {
				t.Errorf("answer of %d after that of %d, durable is %d", at, last, s.Durable())
			}
			last = at
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.held) > 0 {
			t.Errorf("%d are held", len(d.held))
		}
	})
}

// Who has drained a member waits no second time when it closes it. Many leaders of groups that have lost their quorum
// would otherwise add up when a node stops.
func TestDrainedMemberClosesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newLogCluster(t, 3, func(c *Config[reply, string]) { c.Driven = true })
		if err := all[0].group.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := leaderOf(t, all, nil)
		comes(t, "before", l.submit("before"))
		for _, m := range all {
			m.transport.DisconnectAll()
		}
		under := l.submit("under way")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		l.group.Drain(ctx)
		if ctx.Err() == nil {
			t.Error("Drain did not wait for what is under way")
		}
		if err := <-l.submit("late"); !errors.Is(err, ErrStopped) {
			t.Errorf("a command after Drain ends with %v, want %v", err, ErrStopped)
		}
		began := time.Now()
		if err := l.group.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took >= closeDrain {
			t.Errorf("Close took %v", took)
		}
		if err := <-under; !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("what was under way ends with %v, want %v", err, ErrUnknownOutcome)
		}
	})
}
