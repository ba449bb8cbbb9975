package raftfsm

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// These tests show what the pinned hashicorp/raft does where this project relies on it,
// or works around it: if one fails after an update of the library, the code that its
// comment names has to be looked at. They use the library alone.

// TimeoutNow makes a follower lead although it has just heard of a leader: neither
// pre-vote nor the voters' own leader stop it, and nobody asks who sent it.
// Group.Campaign and cluster/liveness rely on it; that only peers get through to a member
// is the transport's to see to.
func TestTrapTimeoutNowAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 3, nil)
		defer stop(all...)
		old := trapLeader(t, all...)
		f := followers(old, all)[0]
		var resp raft.TimeoutNowResponse
		if err := outsider(all...).TimeoutNow(f.id, raft.ServerAddress(f.id), &raft.TimeoutNowRequest{RPCHeader: trapHeader("outsider")}, &resp); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // far below the election timeout of a second
		if l := trapLeader(t, all...); l != f {
			t.Errorf("%s leads, want %s", l.id, f.id)
		}
	})
}

// Two members that stand at the same time vote for themselves and then wait for a whole
// ElectionTimeout, which is ten minutes in driven groups; a second order changes
// nothing. A request for a vote that they must refuse makes one a follower, which can be
// elected. cluster/liveness lets survivors stand one after the other, and Group.StepDown is that request.
func TestTrapTwoCandidatesNeverElect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 3, longTimers)
		defer stop(all...)
		isolate(all[2], all...)
		from := outsider(all...)
		stand := func(n *trapNode) {
			t.Helper()
			var resp raft.TimeoutNowResponse
			if err := from.TimeoutNow(n.id, raft.ServerAddress(n.id), &raft.TimeoutNowRequest{RPCHeader: trapHeader("outsider")}, &resp); err != nil {
				t.Fatal(err)
			}
		}
		a, b := all[0], all[1]
		a.transport.DisconnectAll() // their requests for votes cross
		b.transport.DisconnectAll()
		stand(a)
		stand(b)
		time.Sleep(time.Second)
		join(a, b)
		stand(a)
		stand(b)
		time.Sleep(drivenTimeout / 2)
		if a.raft.State() != raft.Candidate || b.raft.State() != raft.Candidate || a.raft.CurrentTerm() != b.raft.CurrentTerm() {
			t.Fatalf("raft has changed: %s is %v, %s is %v", a.id, a.raft.State(), b.id, b.raft.State())
		}
		kick := &raft.RequestVoteRequest{RPCHeader: trapHeader(a.id), Term: a.raft.CurrentTerm() + 1, LeadershipTransfer: true}
		var vote raft.RequestVoteResponse
		if err := from.RequestVote(a.id, raft.ServerAddress(a.id), kick, &vote); err != nil || vote.Granted {
			t.Fatalf("a vote for an empty log: %+v, %v", vote, err)
		}
		if s := a.raft.State(); s != raft.Follower {
			t.Fatalf("after the request it is %v", s)
		}
		stand(a)
		time.Sleep(time.Second)
		if l := trapLeader(t, a, b); l != a {
			t.Errorf("%s leads", l.id)
		}
	})
}

// A leader whose calls fail waits longer and longer, and keeps waiting when the follower is back. cluster/transport
// parks calls until there is a connection instead of failing them.
func TestTrapFailedCallsDelayCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 3, nil)
		defer stop(all...)
		l := trapLeader(t, all...)
		f := followers(l, all)[0]
		isolate(f, all...)
		for range 60 {
			if err := l.raft.Apply([]byte("x"), time.Second).Error(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if err := l.raft.Apply([]byte("last"), time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		join(all...)
		back := time.Now()
		for !f.machine.has("last") {
			time.Sleep(time.Millisecond)
			if time.Since(back) > time.Minute {
				t.Fatal("it never catches up")
			}
		}
		if d := time.Since(back); d < time.Second {
			t.Errorf("raft has changed: a follower that was away catches up in %v", d)
		}
	})
}

// A leader whose log hangs in a write stays leader: heartbeats come from goroutines of
// their own (hashicorp/raft#503). gate and guard silence such a member.
func TestTrapHungLogKeepsLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 3, nil)
		l := trapLeader(t, all...)
		term := l.raft.CurrentTerm()
		l.logs.hang = make(chan struct{})
		stuck := l.raft.Apply([]byte("stuck"), time.Second)
		time.Sleep(10 * time.Minute)
		for _, n := range all {
			if at, _ := n.raft.LeaderWithID(); string(at) != string(l.id) || n.raft.CurrentTerm() != term {
				t.Errorf("raft has changed: %s follows %q in term %d", n.id, at, n.raft.CurrentTerm())
			}
		}
		close(l.logs.hang)
		if err := stuck.Error(); err != nil {
			t.Error(err)
		}
		stop(all...)
	})
}

// One lost answer on a pipeline stops replication for good, while heartbeats go on: there
// is no time-out of a request. cluster/transport ends a pipeline whose call fails or is late.
func TestTrapLostAnswerStopsPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 3, func(_ int, n *trapNode, _ *raft.Config) { n.transport.lose = true })
		l := trapLeader(t, all...)
		time.Sleep(time.Second) // pipelines begin
		future := l.raft.Apply([]byte("x"), time.Second)
		time.Sleep(10 * time.Minute)
		for _, f := range followers(l, all) {
			if f.raft.LastIndex() != l.raft.LastIndex() {
				t.Errorf("%s has not got the entry", f.id)
			}
		}
		if l.machine.has("x") || l.raft.State() != raft.Leader {
			t.Errorf("raft has changed: committed %v, %v", l.machine.has("x"), l.raft.State())
		}
		stop(all...)
		_ = future.Error() // the shutdown answers it
	})
}

// While the library hands leadership over, entries are refused for ElectionTimeout if
// the target does nothing: ten minutes in driven groups (see hashicorp/raft#696 as well).
// Group.TransferLeadership sends TimeoutNow itself there.
func TestTrapTransferBlocksEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 3, longTimers)
		defer stop(all...)
		var resp raft.TimeoutNowResponse
		if err := outsider(all...).TimeoutNow("n1", "n1", &raft.TimeoutNowRequest{RPCHeader: trapHeader("outsider")}, &resp); err != nil {
			t.Fatal(err)
		}
		l := trapLeader(t, all...)
		f := followers(l, all)[0]
		isolate(f, all...)
		if err := l.raft.Apply([]byte("one that it lacks"), time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		transfer := l.raft.LeadershipTransferToServer(f.id, raft.ServerAddress(f.id))
		time.Sleep(drivenTimeout / 2)
		if err := l.raft.Apply([]byte("y"), time.Second).Error(); !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			t.Errorf("raft has changed: an entry during a transfer: %v", err)
		}
		if err := transfer.Error(); err == nil {
			t.Error("leadership went to a member that is gone")
		}
	})
}

// Term and candidate of a vote are two writes (hashicorp/raft#661), and a start writes the
// term that is there already. bolt_stable.go and wal hold the first back until the second
// comes, and drop what changes nothing: ten thousand groups would sync as often.
func TestTrapWritesOfVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 3, longTimers)
		n := all[0]
		n.stable.take()
		req := &raft.RequestVoteRequest{RPCHeader: trapHeader("n2"), Term: 7, LastLogIndex: 9, LastLogTerm: 7, LeadershipTransfer: true}
		var resp raft.RequestVoteResponse
		if err := outsider(all...).RequestVote(n.id, "n1", req, &resp); err != nil || !resp.Granted {
			t.Fatalf("%+v, %v", resp, err)
		}
		want := []string{"CurrentTerm=7", "LastVoteTerm=7", "LastVoteCand=n2"}
		if got := n.stable.take(); !slices.Equal(got, want) {
			t.Errorf("a vote writes %q, want %q", got, want)
		}
		stop(all...)
		_, n.transport.InmemTransport = raft.NewInmemTransport("n1")
		n.stable.take()
		n.start(t, n.config())
		if got := n.stable.take(); !slices.Equal(got, []string{"CurrentTerm=7"}) {
			t.Errorf("a start writes %q", got)
		}
		stop(n)
	})
}

// A member with nothing gives its vote to anybody, also if it is no voter itself, and takes entries of any leader: an
// election with a configuration from before it left counts them. Base keeps it from that.
func TestTrapEmptyMemberVotesForAnybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 1, longTimers)
		defer stop(all...)
		name := raft.ServerID("n9")
		_, inner := raft.NewInmemTransport(raft.ServerAddress(name))
		n := &trapNode{
			id: name, machine: newPlain(), transport: &trapTransport{InmemTransport: inner}, logs: &trapLogs{InmemStore: raft.NewInmemStore()},
			stable: &trapStable{InmemStore: raft.NewInmemStore()}, snapshots: raft.NewInmemSnapshotStore(),
		}
		c := n.config()
		longTimers(0, n, c)
		n.start(t, c)
		defer stop(n)
		var vote raft.RequestVoteResponse
		req := &raft.RequestVoteRequest{RPCHeader: trapHeader("n1"), Term: 2, LastLogIndex: 1, LastLogTerm: 1}
		if err := outsider(n).RequestVote(n.id, "n9", req, &vote); err != nil || !vote.Granted {
			t.Errorf("raft has changed: %+v, %v", vote, err)
		}
	})
}

// A vote is refused to whoever is not in the voter's own newest configuration, however new the candidate's log is, unless the
// call does not say who it is. Group.hear leaves that out where the log is newer.
func TestTrapNoVoteForUnknownCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 3, longTimers)
		defer stop(all...)
		ask := func(header raft.RPCHeader, term uint64) bool {
			t.Helper()
			var vote raft.RequestVoteResponse
			req := &raft.RequestVoteRequest{RPCHeader: header, Term: term, LastLogIndex: 99, LastLogTerm: 5, LeadershipTransfer: true}
			if err := outsider(all...).RequestVote("n1", "n1", req, &vote); err != nil {
				t.Fatal(err)
			}
			return vote.Granted
		}
		if ask(trapHeader("n9"), 6) || all[0].raft.CurrentTerm() >= 6 {
			t.Errorf("raft has changed: it votes for who is unknown, in term %d", all[0].raft.CurrentTerm())
		}
		if !ask(raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, Addr: []byte("n9")}, 7) {
			t.Error("raft has changed: it does not vote for who does not say its id")
		}
	})
}

// After an installed snapshot the whole of a monotonic log goes, from its first entry to
// its last; of another log, what the snapshot covers except for the trailing entries. wal.GroupLog and bolt say that
// they are monotonic and start over then. A snapshot of another length than was announced is refused, so
// snapshot_stream.go adds up what it will send beforehand.
func TestTrapInstallSnapshot(t *testing.T) {
	for _, monotonic := range []bool{true, false} {
		t.Run(fmt.Sprintf("monotonic=%v", monotonic), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := trapNodes(t, 1, func(_ int, n *trapNode, c *raft.Config) { n.logs.monotonic = monotonic; c.TrailingLogs = 2 })
				defer stop(all...)
				n := trapLeader(t, all...)
				for range 7 {
					if err := n.raft.Apply([]byte("x"), time.Second).Error(); err != nil {
						t.Fatal(err)
					}
				}
				last := n.raft.LastIndex()
				configuration := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}}})
				install := func(size int64, data string) error {
					var resp raft.InstallSnapshotResponse
					err := outsider(n).InstallSnapshot(n.id, "n1", &raft.InstallSnapshotRequest{
						RPCHeader: trapHeader("n9"), SnapshotVersion: 1, Term: n.raft.CurrentTerm() + 1, LastLogIndex: last - 1, LastLogTerm: 2,
						Configuration: configuration, ConfigurationIndex: 1, Size: size,
					}, &resp, strings.NewReader(data))
					if err == nil && !resp.Success {
						err = errors.New("refused")
					}
					return err
				}
				if err := install(9, "short"); err == nil {
					t.Error("a snapshot that is too short is taken")
				}
				if len(n.logs.deleted) > 0 {
					t.Errorf("a snapshot that failed deletes %v", n.logs.deleted)
				}
				if err := install(5, "exact"); err != nil {
					t.Fatal(err)
				}
				want := [][2]uint64{{1, last - 2}}
				if monotonic {
					want = [][2]uint64{{1, last}}
				}
				if !slices.Equal(n.logs.deleted, want) {
					t.Errorf("%v is deleted, want %v", n.logs.deleted, want)
				}
			})
		})
	}
}

// Entries that follow an installed snapshot are refused when they come a second time, because raft looks in the log for the
// entry before them. Group.withoutApplied leaves out what the member has applied.
func TestTrapEntriesBehindSnapshotTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 1, func(_ int, n *trapNode, _ *raft.Config) { n.logs.monotonic = true })
		defer stop(all...)
		n := trapLeader(t, all...)
		const snapshot = 50
		term := n.raft.CurrentTerm() + 1
		var installed raft.InstallSnapshotResponse
		err := outsider(n).InstallSnapshot(n.id, "n1", &raft.InstallSnapshotRequest{
			RPCHeader: trapHeader("n9"), SnapshotVersion: 1, Term: term, LastLogIndex: snapshot, LastLogTerm: term, ConfigurationIndex: 1,
			Configuration: raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}}}),
		}, &installed, strings.NewReader(""))
		if err != nil || !installed.Success {
			t.Fatalf("%+v, %v", installed, err)
		}
		appends := func() bool {
			var answer raft.AppendEntriesResponse
			err := outsider(n).AppendEntries(n.id, "n1", &raft.AppendEntriesRequest{
				RPCHeader: trapHeader("n9"), Term: term, PrevLogEntry: snapshot, PrevLogTerm: term,
				Entries: []*raft.Log{{Index: snapshot + 1, Term: term, Data: []byte("x")}},
			}, &answer)
			if err != nil {
				t.Fatal(err)
			}
			return answer.Success
		}
		if !appends() {
			t.Fatal("the first entry behind the snapshot is refused")
		}
		if appends() {
			t.Error("raft has changed: it takes an entry behind a snapshot a second time")
		}
	})
}

// A snapshot is refused while the last configuration has not reached the machine.
// Group.Snapshot hands the refusal on, and the next entry makes a snapshot due again.
func TestTrapSnapshotBehindConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trapNodes(t, 1, nil)
		defer stop(all...)
		n := trapLeader(t, all...)
		if err := n.raft.Apply([]byte("x"), time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		// Machine and snapshot are served by one goroutine that chooses by chance.
		for i := range 200 {
			<-n.machine.turn
			held := n.raft.Apply([]byte("y"), time.Second)
			time.Sleep(time.Second)
			server := raft.ServerID(fmt.Sprint("other", i))
			added := n.raft.AddNonvoter(server, raft.ServerAddress(server), 0, 0)
			taken := n.raft.Snapshot()
			time.Sleep(time.Second)
			n.machine.turn <- struct{}{}
			err := taken.Error()
			if e := errors.Join(held.Error(), added.Error(), n.raft.RemoveServer(server, 0, 0).Error(), n.raft.Barrier(0).Error()); e != nil {
				t.Fatal(e)
			}
			if err == nil || errors.Is(err, raft.ErrNothingNewToSnapshot) {
				continue
			}
			if !strings.Contains(err.Error(), "wait until the configuration entry") {
				t.Errorf("refused with %v", err)
			}
			return
		}
		t.Error("raft has changed: no snapshot was refused")
	})
}

// tracked is a log that remembers what was committed.
type tracked struct{ *raft.InmemStore }

func (t tracked) StageCommitIndex(uint64) error { return nil }

func (t tracked) GetCommitIndex() (uint64, error) { return t.LastIndex() }

// With RestoreCommittedLogs a start hangs for ever if more entries are committed than
// a channel without a reader takes. The option stays off.
func TestTrapRestoreCommittedLogsHangs(t *testing.T) {
	if (&Config[reply, string]{}).raftConfig(Config[reply, string]{}.withDefaults().Logger).RestoreCommittedLogs {
		t.Error("RestoreCommittedLogs is set")
	}
	const most = 128 // items; here an entry each
	_, transport := raft.NewInmemTransport("n1")
	logs := tracked{raft.NewInmemStore()}
	c := (&trapNode{id: "n1"}).config()
	c.MaxAppendEntries, c.RestoreCommittedLogs = 1, true
	servers := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}}}
	stable, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	if err := raft.BootstrapCluster(c, logs, stable, snapshots, transport, servers); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(2 * most) {
		if err := logs.StoreLog(&raft.Log{Index: i + 2, Term: 1, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	started := make(chan struct{})
	go func() { // hangs until the process ends
		defer close(started)
		r, err := raft.NewRaft(c, newPlain(), logs, stable, snapshots, transport)
		if err != nil {
			t.Error(err)
			return
		}
		_ = r.Shutdown().Error() // it is always nil
	}()
	until(t, "the start hangs, or ends", func() bool {
		select {
		case <-started:
			t.Fatal("raft has changed: a start with many committed entries ends")
		default:
		}
		stacks := make([]byte, 1<<20)
		for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(g, "restoreFromCommittedLogs") && strings.Contains(g, "[chan send") ||
				strings.Contains(g, "restoreFromCommittedLogs") && strings.Contains(g, "[select") {
				return true
			}
		}
		return false
	})
}
