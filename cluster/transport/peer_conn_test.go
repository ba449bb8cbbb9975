package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// queueFrame is a queue frame with a number and some bytes.
func queueFrame(number uint64, bytes int) *nodev1.Frame {
	return &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{QueueCommand: &nodev1.QueueCommand{
		Request: number, Bodies: [][]byte{make([]byte, bytes)},
	}}}
}

func answerFrame(number uint64) *nodev1.Frame {
	return &nodev1.Frame{Kind: &nodev1.Frame_QueueReply{QueueReply: &nodev1.QueueReply{Request: number}}}
}

// Nodes that must not talk to each other say what is wrong and what to do: the one that
// is refused logs it once, however often it tries, and nothing gets through.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{
			name: "other cluster", change: func(c *Config) { c.Cluster = "other" },
			want: `node "n2" belongs to cluster "other", node "n1" to cluster "test": set the same cluster name on both, or correct the list of nodes to join`,
		},
		{
			name: "other key", change: func(c *Config) { c.Key = []byte("another key 0123") },
			want: `the cluster key of node "n2" (with a key) is not that of node "n1" (with a key): set the same key on all nodes of cluster "test"`,
		},
		{
			name: "no key", change: func(c *Config) { c.Key = nil },
			want: `the cluster key of node "n2" (no key) is not that of node "n1" (with a key): set the same key on all nodes of cluster "test"`,
		},
		{
			name: "same id", change: func(c *Config) { c.Node = "n1" },
			want: `node id "n1" is used by two processes: give every node its own id and its own data directory`,
		},
		{
			name: "epoch that is over", change: func(c *Config) { c.Epoch = 4 },
			want: `epoch 4 of node "n2" is over, epoch 5 was seen already: stop the older process, or, if its data directory is an older copy, start it with an empty one`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := start(t, testConfig("n1", 1))
			if err := a.noteEpoch(Peer{Node: "n2", Epoch: 5}); err != nil {
				t.Fatal(err)
			}
			var logged lines
			conf := testConfig("n2", 5)
			conf.Logger = logged.logger()
			c.change(&conf)
			b := start(t, conf)
			target := a.config.Node
			if conf.Node == target {
				target = "n9" // a node does not connect to itself: it was given a wrong address
			}
			b.SetPeer(target, a.address)
			failures := func() uint64 { return b.lookup(target).failure.Load() }
			until(t, "it was refused three times", func() bool { return failures() >= 3 })
			if s := b.Stats().Peers[0]; !strings.Contains(s.LastError, c.want) {
				t.Errorf("refused with\n%s\nwant\n%s", s.LastError, c.want)
			}
			if n := logged.containing("do not accept each other"); n != 1 {
				t.Errorf("logged %d times, want once", n)
			}
			if _, up := b.Connected(target); up {
				t.Error("connected")
			}
			if events := a.recorder.log(); len(events) != 0 {
				t.Errorf("the other side was told %v", events)
			}
		})
	}
}

// An address at which another node answers, or this one itself, is not taken for the
// peer's. It may be a name that moves on soon, so that it is tried as often as one that
// cannot be reached.
func TestWrongNodeAtAddress(t *testing.T) {
	conf := testConfig("n1", 1)
	conf.RetryRefuse = time.Hour
	for _, c := range []struct {
		name, want string
		leadsTo    func(a, b *node) string
	}{
		{
			name: "another node", leadsTo: func(_, b *node) string { return b.address },
			want: `node "n2" answers where node "n1" looks for node "n3": if that lasts, correct the address of "n3"`,
		},
		{
			name: "itself", leadsTo: func(a, _ *node) string { return a.address },
			want: `node "n1" called itself: the address that it knows of another node leads here`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := start(t, conf), start(t, testConfig("n2", 1))
			meet(a, b)
			connected(t, a, b)
			a.SetPeer("n3", c.leadsTo(a, b))
			until(t, "it was tried three times", func() bool { return a.lookup("n3").failure.Load() >= 3 })
			for _, s := range a.Stats().Peers {
				if s.Node == "n3" && !strings.Contains(s.LastError, c.want) {
					t.Errorf("failed with\n%s\nwant\n%s", s.LastError, c.want)
				}
				if s.Node == "n2" && (!s.Up || s.Connects != 1) {
					t.Errorf("the connection that is meant: up %v, connected %d times, want once", s.Up, s.Connects)
				}
			}
		})
	}
}

// Unary calls are checked like streams, and reach Config.Calls with the caller's name.
func TestCalls(t *testing.T) {
	calls := &statusCalls{}
	conf := testConfig("n2", 1)
	conf.Calls = calls
	a, b := start(t, testConfig("n1", 7)), start(t, conf)
	if _, err := a.Client("n2"); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("error %v, want ErrUnknownPeer", err)
	}
	meet(a, b)
	connected(t, a, b)
	client, err := a.Client("n2")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := client.NodeStatus(t.Context(), &nodev1.NodeStatusRequest{}); err != nil || r.GetNode() != "called by n1/7" {
		t.Errorf("%v, %v", r, err)
	}
	b.stop(t)
	until(t, "calls fail with Unavailable", func() bool {
		_, err := client.NodeStatus(t.Context(), &nodev1.NodeStatusRequest{})
		return status.Code(err) == codes.Unavailable
	})
}

type statusCalls struct {
	nodev1.UnimplementedNodeServer
}

func (statusCalls) NodeStatus(ctx context.Context, _ *nodev1.NodeStatusRequest) (*nodev1.NodeStatusResponse, error) {
	p, ok := CallerOf(ctx)
	if !ok {
		return nil, errors.New("no caller")
	}
	return &nodev1.NodeStatusResponse{Node: fmt.Sprintf("called by %s/%d", p.Node, p.Epoch)}, nil
}

// Frames keep their order both ways, and PeerUp and PeerDown come around them.
func TestQueueFramesInOrder(t *testing.T) {
	const frames = 5000
	a, b := start(t, testConfig("n1", 1)), start(t, testConfig("n2", 3))
	b.recorder.request = func(_ Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error) {
		if err := reply(answerFrame(f.GetQueueCommand().GetRequest())); err != nil {
			t.Error(err)
		}
	}
	if err := a.Send("n2", queueFrame(0, 0)); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("error %v, want ErrUnknownPeer", err)
	}
	meet(a, b)
	connected(t, a, b)
	for i := range uint64(frames) {
		if err := a.Send("n2", queueFrame(i, 100)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all answers came", func() bool { n, _ := a.recorder.count(); return n == frames })
	for i := range frames {
		got := a.recorder.answers[i].GetQueueReply().GetRequest()
		asked := b.recorder.requests[i].GetQueueCommand().GetRequest()
		if got != uint64(i) || asked != uint64(i) {
			t.Fatalf("frame %d: asked %d, answered %d", i, asked, got)
		}
	}
	if err := a.Send("n2", queueFrame(0, 65<<20)); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("error %v, want ErrFrameTooLarge", err)
	}
	b.stop(t)
	until(t, "both ends were notified", func() bool {
		events := fmt.Sprint(a.recorder.log())
		return strings.Contains(events, "up n2/3") && strings.Contains(events, "down n2/3")
	})
	if err := a.Send("n2", queueFrame(0, 0)); !errors.Is(err, ErrNotConnected) {
		t.Errorf("error %v, want ErrNotConnected", err)
	}
	if got := fmt.Sprint(b.recorder.log()); !strings.Contains(got, "inbound n1/1 true") || !strings.Contains(got, "inbound n1/1 false") {
		t.Errorf("n2 was told %s", got)
	}
}

// A peer that does not read queue frames fills its own stream and nothing else: Send says
// so, Raft calls continue, and all is delivered when the peer reads again.
func TestStreamFull(t *testing.T) {
	conf := testConfig("n1", 1)
	conf.MaxStreamQueueBytes = 1 << 20
	a, b := start(t, conf), start(t, testConfig("n2", 1))
	gate := make(chan struct{})
	b.recorder.request = func(Peer, *nodev1.Frame, func(*nodev1.Frame) error) { <-gate }
	meet(a, b)
	connected(t, a, b)
	sent := 0
	until(t, "the stream is full", func() bool {
		for {
			err := a.Send("n2", queueFrame(uint64(sent), 64<<10))
			if errors.Is(err, ErrStreamFull) {
				return a.Stats().Peers[0].QueueBytes > a.Stats().MaxStreamQueueBytes-128<<10
			}
			if err != nil {
				t.Fatal(err)
			}
			sent++
		}
	})
	callPasses(t, a, b)
	close(gate)
	until(t, "all was delivered", func() bool { _, n := b.recorder.count(); return n == sent })
}

// callPasses fails the test unless a Raft call of n1 is answered by n2.
func callPasses(t *testing.T, n1, n2 *node) {
	t.Helper()
	group := n1.Raft(1024)
	var resp raft.AppendEntriesResponse
	answer(t, n2.Raft(1024))
	args := &raft.AppendEntriesRequest{RPCHeader: header("n1"), Term: 1, PrevLogEntry: 1, Entries: entries(1, 10)}
	if err := group.AppendEntries("n2", "n2", args, &resp); err != nil || !resp.Success {
		t.Errorf("%+v, %v", resp, err)
	}
}

// answer stands for a member that accepts every call.
func answer(t testing.TB, tr raft.Transport) {
	t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case rpc := <-tr.Consumer():
				rpc.Respond(&raft.AppendEntriesResponse{Term: 1, Success: true}, nil)
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
	})
}

// A newer incarnation takes the connections of the older one over, at its new address; one
// that is over does not come back.
func TestNewEpoch(t *testing.T) {
	a := start(t, testConfig("n1", 1))
	old := start(t, testConfig("n2", 1))
	meet(a, old)
	connected(t, a, old)
	connected(t, old, a)
	again := start(t, testConfig("n2", 2)) // the old one still runs, as after a partition
	again.SetPeer("n1", a.address)
	until(t, "the old connections are dropped", func() bool {
		_, up := a.Connected("n2")
		return !up && strings.Contains(fmt.Sprint(a.recorder.log()), "inbound n2/1 false")
	})
	a.SetPeer("n2", again.address)
	connected(t, a, again)
	until(t, "the old one is refused", func() bool {
		return strings.Contains(old.Stats().Peers[0].LastError, `epoch 1 of node "n2" is over`)
	})
}

// A node that cuts its connections is down for its peers although it was not closed, and stays so.
func TestCut(t *testing.T) {
	a, b := start(t, testConfig("n1", 1)), start(t, testConfig("n2", 1))
	meet(a, b)
	connected(t, a, b)
	connected(t, b, a)
	a.Cut()
	until(t, "both ends are down", func() bool {
		_, there := a.Connected("n2")
		_, here := b.Connected("n1")
		return !there && !here
	})
	a.SetPeer("n3", b.address)
	if _, up := a.Connected("n3"); up {
		t.Error("it has a new peer")
	}
	if c, err := net.Dial("tcp", a.address); err == nil { //nolint:noctx // it is refused
		_ = c.Close()
		t.Error("it still listens")
	}
}

// A process that is stopped keeps its sockets open and says nothing: pings notice it.
func TestFrozenPeer(t *testing.T) {
	conf := testConfig("n1", 1)
	conf.PingEvery, conf.PingTimeout = 20*time.Millisecond, 200*time.Millisecond
	a, b := start(t, conf), start(t, testConfig("n2", 1))
	relay := newRelay(t, b.address)
	a.SetPeer("n2", relay.address)
	connected(t, a, b)
	relay.freeze()
	until(t, "the connection is dropped", func() bool { _, up := a.Connected("n2"); return !up })
	until(t, "it is said why", func() bool { return strings.Contains(fmt.Sprint(a.recorder.log()), "down n2/1") })
	relay.thaw()
	connected(t, a, b)
	if n := a.Stats().Peers[0].Connects; n < 2 { // a busy machine may be taken for frozen once more
		t.Errorf("connected %d times, want 2", n)
	}
}

// While a frame of a stream that has ended is handled, nothing of the next one is: else its end would be the last that is
// heard of the peer, and count as the peer's.
func TestStreamsOneAfterAnother(t *testing.T) {
	a, b := start(t, testConfig("n1", 1)), start(t, testConfig("n2", 1))
	gate := make(chan struct{})
	b.recorder.request = func(_ Peer, f *nodev1.Frame, _ func(*nodev1.Frame) error) {
		if f.GetQueueCommand().GetRequest() == 0 {
			<-gate
		}
	}
	relay := newRelay(t, b.address)
	a.SetPeer("n2", relay.address)
	connected(t, a, b)
	if err := a.Send("n2", queueFrame(0, 100)); err != nil {
		t.Fatal(err)
	}
	until(t, "a frame is handled", func() bool { _, n := b.recorder.count(); return n == 1 })
	current := func() *acceptedStream {
		b.accepted.mu.Lock()
		defer b.accepted.mu.Unlock()
		return b.accepted.streams[streamKey{"n1", classQueue}]
	}
	first := current()
	relay.cut()
	<-first.ctx.Done()
	until(t, "the next stream has come", func() bool { l := current(); return l != nil && l != first })
	connected(t, a, b) // Raft calls of the peer do not wait
	if err := a.Send("n2", queueFrame(1, 100)); err != nil {
		t.Fatal(err)
	}
	callPasses(t, a, b)
	close(gate)
	until(t, "a frame of the next stream is handled", func() bool { _, n := b.recorder.count(); return n == 2 })
	if got, want := b.recorder.log(), []string{"inbound n1/1 true", "inbound n1/1 false", "inbound n1/1 true"}; !slices.Equal(got, want) {
		t.Errorf("n2 heard %q, want %q", got, want)
	}
}

// After Close nothing is left, whatever state the connections were in.
func TestNothingLeft(t *testing.T) {
	a, b := start(t, testConfig("n1", 1)), start(t, testConfig("n2", 1))
	meet(a, b)
	a.SetPeer("n3", "127.0.0.1:1") // nobody listens
	connected(t, a, b)
	connected(t, b, a)
	group := a.Raft(1024)
	failed := make(chan error, 1)
	go func() {
		failed <- group.AppendEntries("n3", "n3", &raft.AppendEntriesRequest{Term: 1}, &raft.AppendEntriesResponse{})
	}()
	until(t, "the call waits for its connection", func() bool { return a.Stats().Peers[1].Parked == 1 })
	a.RemovePeer("n2")
	a.stop(t)
	if err := <-failed; err == nil {
		t.Error("the call that waited succeeded")
	}
	b.stop(t)
	for _, n := range []*node{a, b} {
		if err := <-n.served; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	}
	noneLeft(t)
	if tr := a.Raft(2000); tr.LocalAddr() != "n1" {
		t.Errorf("address %q", tr.LocalAddr())
	}
	a.SetPeer("n4", "127.0.0.1:1")
	noneLeft(t)
}

// A peer that is removed is tried no more, calls to it fail at once, and what it has counted stays.
func TestRemovedPeerCounts(t *testing.T) {
	a := start(t, testConfig("n1", 1))
	a.SetPeer("n2", "127.0.0.1:1") // nobody listens
	until(t, "an attempt has failed", func() bool { return a.Stats().Peers[0].Failures > 0 })
	a.RemovePeer("n2")
	err := a.Raft(1024).AppendEntries("n2", "n2", &raft.AppendEntriesRequest{Term: 1}, &raft.AppendEntriesResponse{})
	if !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("a call: %v", err)
	}
	s := a.Stats()
	if len(s.Peers) > 0 || s.Former.Failures == 0 || s.Former.Reconnects > 0 {
		t.Errorf("%+v", s)
	}
	a.SetPeer("n2", "127.0.0.1:1")
	if s := a.Stats(); len(s.Peers) != 1 || s.Former.Failures == 0 {
		t.Errorf("set again: %+v", s)
	}
	a.stop(t)
}

func TestValidate(t *testing.T) {
	_, err := New(Config{MaxFrameBytes: -1, RetryMin: time.Hour, PingEvery: -1, MaxAppendBytes: 128 << 20})
	for _, want := range []string{
		"Node is empty", "Cluster is empty", "Handler is nil", "MaxFrameBytes is -1", "PingEvery is -1ns",
		"MaxAppendBytes is 134217728, which is more than MaxFrameBytes",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
	c := testConfig("n1", 1)
	c.Handler = &recorder{}
	c.RetryMin, c.RetryMax = time.Hour, time.Minute
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "RetryMin is 1h0m0s, which is longer than RetryMax 1m0s") {
		t.Errorf("error %v", err)
	}
	if _, err := New(Config{Node: "n1", Cluster: "c", Handler: &recorder{}}); err != nil {
		t.Error(err)
	}
}
