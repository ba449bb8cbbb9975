package transport

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

func appendArgs(bytes int) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{RPCHeader: header("n1"), Term: 1, PrevLogEntry: 1, PrevLogTerm: 1, Entries: entries(1, bytes)}
}

// pair returns two nodes that are connected.
func pair(t *testing.T, change func(*Config)) (a, b *node) {
	t.Helper()
	conf := testConfig("n1", 1)
	if change != nil {
		change(&conf)
	}
	a, b = start(t, conf), start(t, testConfig("n2", 1))
	meet(a, b)
	connected(t, a, b)
	return a, b
}

// A call that the other side cannot serve fails with what is wrong.
func TestCallRefused(t *testing.T) {
	a, b := pair(t, nil)
	var resp raft.AppendEntriesResponse
	group := a.Raft(1024)
	check := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	const none = `node "n2": no member of group g1024 runs on node "n2": it is not started yet, or was removed from here`
	check(group.AppendEntries("n2", "n2", appendArgs(10), &resp), none)
	check(group.RequestVote("n2", "n2", &raft.RequestVoteRequest{RPCHeader: header("n1")}, &raft.RequestVoteResponse{}), none)
	check(group.InstallSnapshot("n2", "n2", &raft.InstallSnapshotRequest{RPCHeader: header("n1")}, &raft.InstallSnapshotResponse{},
		strings.NewReader("")), "no member of group g1024 runs on node")

	answer(t, b.Raft(1024))
	const name = `node "n1" sent a Raft call in the name of node "n7": the server id in Raft configurations must be the node's id`
	other := appendArgs(10)
	other.RPCHeader = header("n7")
	check(group.AppendEntries("n2", "n2", other, &resp), name)
	check(group.(raft.WithPreVote).RequestPreVote("n2", "n2", &raft.RequestPreVoteRequest{RPCHeader: header("n7")}, //nolint:errcheck // a test may panic
		&raft.RequestPreVoteResponse{}), name)
	check(group.InstallSnapshot("n2", "n2", &raft.InstallSnapshotRequest{RPCHeader: header("n7")}, &raft.InstallSnapshotResponse{},
		strings.NewReader("")), name)
	check(group.InstallSnapshot("n2", "n2", &raft.InstallSnapshotRequest{RPCHeader: header("n1"), Size: 10}, &raft.InstallSnapshotResponse{},
		strings.NewReader("short")), "the snapshot has 5 bytes, its size is said to be 10")
	check(group.RequestVote("n9", "n9", &raft.RequestVoteRequest{RPCHeader: header("n1")}, &raft.RequestVoteResponse{}), `not known: node "n9"`)
	if err := group.AppendEntries("n2", "n2", appendArgs(10), &resp); err != nil || !resp.Success {
		t.Errorf("%+v, %v", resp, err)
	}
}

// Calls that a member holds when its transport is closed, and those after, are refused;
// the group can be opened again.
func TestCloseGroup(t *testing.T) {
	a, b := pair(t, nil)
	from, to := a.Raft(1024), b.Raft(1024)
	results := make(chan error, 8)
	for range cap(results) {
		go func() {
			results <- from.AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{})
		}()
	}
	taken := <-to.Consumer()                                  // never answered
	if taken.Command.(*raft.AppendEntriesRequest).Term != 1 { //nolint:errcheck // a test may panic
		t.Errorf("%+v", taken.Command)
	}
	if err := to.(raft.WithClose).Close(); err != nil { //nolint:errcheck // a test may panic
		t.Fatal(err)
	}
	for range cap(results) {
		if err := <-results; err == nil || !strings.Contains(err.Error(), "no member of group g1024 runs on node") {
			t.Errorf("error %v", err)
		}
	}
	answer(t, b.Raft(1024))
	if err := from.AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{}); err != nil {
		t.Error(err)
	}
}

// AppendEntries to a peer that is down, or not even known, waits and goes out when the
// connection comes up; votes do not wait.
func TestParked(t *testing.T) {
	conf := testConfig("n1", 1)
	conf.MaxParkedCalls = 1
	a := start(t, conf)
	group := a.Raft(1024)
	ended := make(chan error, 1)
	go func() {
		ended <- group.AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{})
	}()
	until(t, "the call waits", func() bool { s := a.Stats(); return len(s.Peers) == 1 && s.Peers[0].Parked == 1 })
	if err := group.RequestVote("n2", "n2", &raft.RequestVoteRequest{RPCHeader: header("n1")}, &raft.RequestVoteResponse{}); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("error %v, want ErrUnknownPeer", err)
	}
	err := group.AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{})
	if !errors.Is(err, ErrNotConnected) || !strings.Contains(err.Error(), "1 calls wait for it already") {
		t.Errorf("error %v", err)
	}
	b := start(t, testConfig("n2", 1))
	answer(t, b.Raft(1024))
	a.SetPeer("n2", b.address)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Calls for a group that is about to open wait for it, within bounds; others are refused.
func TestAbsent(t *testing.T) {
	conf := testConfig("n2", 1)
	conf.Absent = func(g id.GroupID) bool { return g == 1024 }
	conf.MaxAbsentCalls, conf.AbsentTimeout = 2, time.Minute
	a, b := start(t, testConfig("n1", 1)), start(t, conf)
	meet(a, b)
	connected(t, a, b)
	vote := func(g id.GroupID) <-chan error {
		ended := make(chan error, 1)
		group := a.Raft(g)
		go func() {
			ended <- group.RequestVote("n2", "n2", &raft.RequestVoteRequest{RPCHeader: header("n1")}, &raft.RequestVoteResponse{})
		}()
		return ended
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	refused(<-vote(1025), "no member of group g1025")
	group := a.Raft(1024)
	var waiting []<-chan error
	for range 2 {
		ended := make(chan error, 1)
		go func() { ended <- group.AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{}) }()
		waiting = append(waiting, ended)
	}
	until(t, "two calls wait", func() bool { return b.Stats().AbsentCalls == 2 })
	refused(group.AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{}), "too much waits")
	answer(t, b.Raft(1024))
	for _, ended := range waiting {
		if err := <-ended; err != nil {
			t.Errorf("a call that waited: %v", err)
		}
	}
	if s := b.Stats(); s.AbsentCalls != 0 || s.AbsentRefused != 1 {
		t.Errorf("stats %+v", s)
	}
}

// A group that does not open in time is refused.
func TestAbsentTimeout(t *testing.T) {
	conf := testConfig("n2", 1)
	conf.Absent = func(id.GroupID) bool { return true }
	conf.AbsentTimeout = 10 * time.Millisecond
	a, b := start(t, testConfig("n1", 1)), start(t, conf)
	meet(a, b)
	connected(t, a, b)
	err := a.Raft(1024).RequestVote("n2", "n2", &raft.RequestVoteRequest{RPCHeader: header("n1")}, &raft.RequestVoteResponse{})
	if err == nil || !strings.Contains(err.Error(), "no member of group g1024") || b.Stats().AbsentRefused != 1 {
		t.Errorf("error %v, stats %+v", err, b.Stats())
	}
}

// A call to a member that does not answer ends in time.
func TestCallTimeout(t *testing.T) {
	a, b := pair(t, func(c *Config) { c.CallTimeout = 50 * time.Millisecond })
	b.Raft(1024)
	err := a.Raft(1024).AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{})
	if err == nil || !strings.Contains(err.Error(), `node "n2" did not answer a call for group g1024 within 50ms`) {
		t.Errorf("error %v", err)
	}
}

// Heartbeats are answered while the member is busy with a call, and one group that is
// stuck does not hold up another.
func TestHeartbeatPastBusyMember(t *testing.T) {
	a, b := pair(t, nil)
	from, to := a.Raft(1024), b.Raft(1024)
	to.SetHeartbeatHandler(func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Term: 5}, nil) })
	stuck := make(chan error, 1)
	go func() { stuck <- from.AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{}) }()
	busy := <-to.Consumer()
	var resp raft.AppendEntriesResponse
	for range 10 {
		if err := from.AppendEntries("n2", "n2", &raft.AppendEntriesRequest{RPCHeader: header("n1"), Term: 5}, &resp); err != nil || resp.Term != 5 {
			t.Fatalf("%+v, %v", resp, err)
		}
	}
	answer(t, b.Raft(1025))
	if err := a.Raft(1025).AppendEntries("n2", "n2", appendArgs(10), &resp); err != nil {
		t.Error(err)
	}
	busy.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
	if err := <-stuck; err != nil {
		t.Error(err)
	}
}

// A member that lets too many calls wait refuses more, and then continues.
func TestTooManyInboundCalls(t *testing.T) {
	conf := testConfig("n2", 1)
	conf.MaxInboundCalls = 4
	a, b := start(t, testConfig("n1", 1)), start(t, conf)
	meet(a, b)
	connected(t, a, b)
	from, to := a.Raft(1024), b.Raft(1024)
	results := make(chan error, 20)
	call := func() { results <- from.AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{}) }
	go call()
	l := &to.(*group).calls //nolint:errcheck // a test may panic
	until(t, "the first call is offered to raft", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.serving && len(l.calls) == 0
	})
	for range cap(results) - 1 {
		go call()
	}
	// Behind the first, four wait.
	for range cap(results) - 5 {
		if err := <-results; err == nil || !strings.Contains(err.Error(), `4 calls wait for group g1024 on node "n2" already`) {
			t.Fatalf("error %v", err)
		}
	}
	answer(t, to)
	for range 5 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// The pipeline blocks at its depth and at its bytes, continues when a call is answered, and ends with the connection:
// a sender that waits does not wait for ever.
func TestPipelineLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		args   *raft.AppendEntriesRequest
		fit    int
	}{
		{name: "depth", change: func(c *Config) { c.MaxRaftInFlight = 3 }, args: appendArgs(10), fit: 3},
		{name: "bytes", change: func(c *Config) { c.MaxRaftBytes = 2500 }, args: appendArgs(1000), fit: 2},
		{name: "one always fits", change: func(c *Config) { c.MaxRaftBytes = 10 }, args: appendArgs(1000), fit: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t, c.change)
			to := b.Raft(1024)
			p, err := a.Raft(1024).AppendEntriesPipeline("n2", "n2")
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close() //nolint:errcheck // always nil
			sent := make(chan error)
			go func() {
				for {
					_, err := p.AppendEntries(c.args, &raft.AppendEntriesResponse{})
					sent <- err
					if err != nil {
						return
					}
				}
			}()
			for range c.fit {
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
			}
			rpc := <-to.Consumer()
			select {
			case err := <-sent:
				t.Fatalf("another fitted, %v", err)
			default:
			}
			rpc.Respond(&raft.AppendEntriesResponse{Term: 1, Success: true}, nil)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			if f := <-p.Consumer(); f.Error() != nil || !f.Response().Success || f.Request() != c.args || f.Start().IsZero() {
				t.Errorf("%+v", f)
			}
			b.stop(t)
			if err := <-sent; !errors.Is(err, raft.ErrPipelineShutdown) && !errors.Is(err, ErrNotConnected) {
				t.Errorf("error %v", err)
			}
			if f := <-p.Consumer(); f.Error() == nil || f.Response().Success {
				t.Errorf("%+v, %v", f, f.Error())
			}
		})
	}
}

// Results come in order however slowly raft reads them, and a reader that is slow holds
// up nobody else.
func TestPipelineSlowReader(t *testing.T) {
	a, b := pair(t, func(c *Config) { c.MaxRaftInFlight = 2 })
	answer(t, b.Raft(1024))
	answer(t, b.Raft(1025))
	p, err := a.Raft(1024).AppendEntriesPipeline("n2", "n2")
	if err != nil {
		t.Fatal(err)
	}
	const calls = 50
	var sent []*raft.AppendEntriesRequest
	for range calls {
		sent = append(sent, appendArgs(10))
	}
	ended := make(chan error, 1)
	go func() {
		for _, args := range sent {
			if _, err := p.AppendEntries(args, &raft.AppendEntriesResponse{}); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for i := range calls {
		// Another group's call goes there and back before the next result is read.
		if err := a.Raft(id.GroupID(1025)).AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{}); err != nil {
			t.Fatal(err)
		}
		if f := <-p.Consumer(); f.Request() != sent[i] || f.Error() != nil {
			t.Fatalf("result %d is of another call, or %v", i, f.Error())
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.AppendEntries(appendArgs(10), &raft.AppendEntriesResponse{}); !errors.Is(err, raft.ErrPipelineShutdown) {
		t.Errorf("error %v", err)
	}
}

// A call that did not succeed ends the pipeline: raft reads no result after it.
func TestPipelineEndsAtFailure(t *testing.T) {
	a, b := pair(t, nil)
	to := b.Raft(1024)
	p, err := a.Raft(1024).AppendEntriesPipeline("n2", "n2")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // always nil
	if _, err := p.AppendEntries(appendArgs(10), &raft.AppendEntriesResponse{}); err != nil {
		t.Fatal(err)
	}
	rpc := <-to.Consumer()
	rpc.Respond(&raft.AppendEntriesResponse{Term: 1}, nil)
	if f := <-p.Consumer(); f.Error() != nil || f.Response().Success {
		t.Errorf("%+v", f)
	}
	until(t, "the pipeline has ended", func() bool {
		_, err := p.AppendEntries(appendArgs(10), &raft.AppendEntriesResponse{})
		return errors.Is(err, raft.ErrPipelineShutdown)
	})
}

// A lost answer ends the pipeline, in which raft would wait for it for ever: raft gets a failure, also while it sends
// nothing, and a sender that waits for room continues. Answers that come, however slowly, do not end it.
func TestPipelineEndsWithoutAnswers(t *testing.T) {
	const timeout = 2 * time.Second
	a, b := pair(t, func(c *Config) { c.CallTimeout, c.MaxRaftInFlight = timeout, 2 })
	to := b.Raft(1024)
	p, err := a.Raft(1024).AppendEntriesPipeline("n2", "n2")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close() //nolint:errcheck // always nil
	send := func() error {
		_, err := p.AppendEntries(appendArgs(10), &raft.AppendEntriesResponse{})
		return err
	}
	began := time.Now()
	for range 4 { // answered one after the other, each within the time since the one before
		if err := send(); err != nil {
			t.Fatal(err)
		}
		rpc := <-to.Consumer()
		time.Sleep(timeout * 3 / 10) // the time that passes is what is tested
		rpc.Respond(&raft.AppendEntriesResponse{Term: 1, Success: true}, nil)
		if f := <-p.Consumer(); f.Error() != nil || !f.Response().Success {
			t.Fatalf("%v after its start: %v", time.Since(began), f.Error())
		}
	}
	for range 2 {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	rpc := <-to.Consumer() // never answered
	if err := send(); !errors.Is(err, raft.ErrPipelineShutdown) {
		t.Errorf("a sender that waited for room: %v", err)
	}
	if f := <-p.Consumer(); f.Error() == nil || f.Response().Success || !strings.Contains(f.Error().Error(), "did not answer group g1024") {
		t.Errorf("%+v, %v", f.Response(), f.Error())
	}
	rpc.Respond(&raft.AppendEntriesResponse{Term: 1, Success: true}, nil) // late: nobody reads it
	pc, err := a.connection("n2")
	if err != nil {
		t.Fatal(err)
	}
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if len(pc.calls) != 0 {
		t.Errorf("%d calls are kept", len(pc.calls))
	}
}

// A call does not wait for a connection for ever.
func TestParkTimeout(t *testing.T) {
	conf := testConfig("n1", 1)
	conf.ParkTimeout = 20 * time.Millisecond
	a := start(t, conf)
	err := a.Raft(1024).AppendEntries("n2", "n2", appendArgs(10), &raft.AppendEntriesResponse{})
	if !errors.Is(err, ErrNotConnected) || !strings.Contains(err.Error(), `node "n2" for 20ms`) {
		t.Errorf("error %v", err)
	}
	if n := a.Stats().Peers[0].Parked; n != 0 {
		t.Errorf("%d calls wait", n)
	}
}
