package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/liveness"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// testHost is the host of node "a". The parts below it are real, it has no connections, and its
// catalog applies commands at once. What it reports to the parts above is in seen.
type testHost struct {
	*Host

	t       testing.TB
	path    string
	views   *metadata.Views
	storage *storage.Storage
	seen    seen
	stop    func()

	// serves is what Serves returns. It is set before start.
	serves bool
	// registered is the catalog's index at the present start.
	registered uint64
	// wall is by how much the machine's wall clock is off. It is set before start.
	wall time.Duration
	// damages says that entries are damaged on purpose.
	damages atomic.Bool

	catalogMu sync.Mutex // guards what follows
	catalog   *catalog.Catalog
	behind    chan struct{} // closed when the view is shown that the catalog has; nil: it is
	unsure    bool          // no view is confirmed
}

// noTraffic ignores what comes from other nodes.
type noTraffic struct{}

func (noTraffic) HandleRequest(transport.Peer, *nodev1.Frame, func(*nodev1.Frame) error) {}
func (noTraffic) HandleAnswer(transport.Peer, *nodev1.Frame)                             {}
func (noTraffic) PeerUp(transport.Peer)                                                  {}
func (noTraffic) PeerDown(transport.Peer)                                                {}
func (noTraffic) Inbound(transport.Peer, bool)                                           {}

// wallClock is a machine whose wall clock is off.
type wallClock struct {
	nodeclock.Source

	off time.Duration
}

func (c wallClock) Read() clock.Reading {
	r := c.Source.Read()
	r.Wall += c.off
	return r
}

// lateMux holds a mux that is created after the parts that need it.
type lateMux struct{ *transport.Mux }

// seen is what a host has reported to the parts above it.
type seen struct {
	mu         sync.Mutex
	deliveries []traffic.Delivery
	leader     map[id.QueueUID]id.NodeID
	gone       []id.QueueUID
	terms      int // that have begun and not ended

	copying atomic.Bool // at-most-once dead letters wait to be sent
}

func (s *seen) Deliver(_ id.QueueUID, ds []traffic.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries = append(s.deliveries, ds...)
}

func (s *seen) LeaderChanged(q id.QueueUID, leader id.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader == nil {
		s.leader = map[id.QueueUID]id.NodeID{}
	}
	s.leader[q] = leader
}

func (s *seen) QueueGone(q id.QueueUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(s.gone, q)
}

func (s *seen) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terms += n
}

func (s *seen) Notice(id.QueueUID, quorumq.Notice)                     {}
func (s *seen) QueueDrainDeletes(id.QueueUID)                          {}
func (s *seen) Followed(*catalog.View)                                 {}
func (s *seen) Leading(deadletter.Source)                              { s.count(1) }
func (s *seen) Ceased(deadletter.Source)                               { s.count(-1) }
func (s *seen) Backlog(deadletter.Source)                              {}
func (s *seen) Copies(deadletter.Source, []quorumq.Discarded)          {}
func (s *seen) Copying(deadletter.Source) bool                         { return s.copying.Load() }
func (s *seen) Purging(_ deadletter.Source, then func(uint64, func())) { then(0, func() {}) }

// newTestHost starts a host in a new directory.
func newTestHost(t testing.TB, edit func(*Config)) *testHost {
	t.Helper()
	h := &testHost{t: t, path: t.TempDir(), catalog: catalog.New(), serves: true}
	h.views = metadata.NewViews(h.catalog.View())
	h.start(edit)
	h.mustPropose(&catalog.RegisterNode{ID: "a", Address: "127.0.0.1:1", Epoch: h.cfg.Epoch})
	h.mustPropose(&catalog.RaiseVersion{Version: catalog.NewestVersion})
	return h
}

// newBusyHost starts a host that follows no changes of the catalog until release is called, or the test ends.
func newBusyHost(t testing.TB) (h *testHost, release func()) {
	t.Helper()
	var holds atomic.Bool
	held, free := make(chan struct{}), make(chan struct{})
	release = sync.OnceFunc(func() { close(free) })
	h = newTestHost(t, func(c *Config) {
		c.Addressed = func(id.NodeID, string) {
			if holds.CompareAndSwap(true, false) {
				close(held)
				<-free
			}
		}
	})
	t.Cleanup(release)
	h.poll("it is ready", func() error { return h.Ready(h.views.View().Index()) })
	holds.Store(true)
	h.mustPropose(&catalog.RegisterNode{ID: "a", Address: "127.0.0.1:2", Epoch: h.cfg.Epoch, Store: h.cfg.Dir.Store().Name})
	<-held
	return h, release
}

// start opens what is in the directory.
func (h *testHost) start(edit func(*Config)) {
	h.t.Helper()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("CLUSTER_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	ctx, cancel := context.WithCancel(context.Background())
	check := func(err error) {
		h.t.Helper()
		if err != nil {
			h.t.Fatal(err)
		}
	}
	dir, err := datadir.Open(h.path, h.t.Name(), "a")
	check(err)
	epoch, err := dir.NextEpoch(slog.New(slog.DiscardHandler))
	check(err)
	board := disk.NewBoard("a", h.path, 1<<20, log)
	h.storage, err = storage.Open(storage.Config{
		Dir: dir, Logger: log, TailBytes: 1 << 20, LowBytes: 1, FloorBytes: 1,
		Failed: func(err error) { h.t.Error(err) }, Lost: h.lost,
		Pressed: board.LookSoon, Opening: func(int, int) {},
	})
	check(err)
	now := nodeclock.New(nodeclock.Config{Node: "a", Source: wallClock{nodeclock.Machine(), h.wall}, Skew: clock.DefaultLimit, Logger: log})
	var links lateMux
	live, err := liveness.New(liveness.Config{Node: "a", Transport: &links, Dead: func(id.NodeID) bool { return false }, Logger: log, Judged: func() {}})
	check(err)
	links.Mux, err = transport.New(transport.Config{
		Node: "a", Epoch: epoch, Store: dir.Store().Name, Cluster: h.t.Name(), Handler: noTraffic{}, Heartbeats: live, Logger: log,
	})
	check(err)
	journal := event.NewJournal(event.JournalConfig{Node: "a", Logger: log, View: h.views.View, NowMs: now.NowMs, StartedMs: now.StartedMs})
	c := Config{
		Node: "a", Epoch: epoch, Logger: log, Life: ctx, Dir: dir, Storage: h.storage, Clock: now, Disks: board, Views: h.views,
		Policies: &policy.Matcher{}, Liveness: live, Transport: links.Mux, Catalog: h, Events: journal, BodyCacheBytes: 1 << 20,
		ReachChanged: func() <-chan struct{} { return nil }, Addressed: func(id.NodeID, string) {},
	}
	if edit != nil {
		edit(&c)
	}
	h.registered = max(1, h.views.View().Index())
	h.Host = New(c)
	h.Start(Above{Gateway: &h.seen, Forwarders: &h.seen, HandOver: func(context.Context) {}})
	var loops sync.WaitGroup
	loops.Go(func() { live.Run(ctx) })
	loops.Go(func() {
		now.Run(ctx, 50*time.Millisecond, nodeclock.Listener{Nodes: func() int { return 1 }, TimeSet: h.TimeSet, Emit: journal.EmitNode})
	})
	h.stop = sync.OnceFunc(func() {
		cancel()
		err := h.Close()
		loops.Wait()
		if err := errors.Join(err, links.Close(context.Background()), h.storage.Close(), dir.Close()); err != nil {
			h.t.Error(err)
		}
	})
	h.t.Cleanup(h.stop)
}

// lost is notified that entries of a group cannot be read.
func (h *testHost) lost(_ id.GroupID, err error) {
	if !h.damages.Load() {
		h.t.Error(err)
	}
}

// Propose implements Catalog.
func (h *testHost) Propose(_ context.Context, cmd catalog.Command) (catalog.Reply, error) {
	h.catalogMu.Lock()
	defer h.catalogMu.Unlock()
	r := h.catalog.Apply(h.catalog.View().Index()+1, time.Now().UnixMilli(), cmd)
	if h.behind == nil {
		h.views.Publish(h.catalog.View())
	}
	if r.Err != nil {
		return r, r.Err
	}
	return r, nil
}

// catalogView returns what the catalog has.
func (h *testHost) catalogView() *catalog.View {
	h.catalogMu.Lock()
	defer h.catalogMu.Unlock()
	return h.catalog.View()
}

// Registered implements Catalog.
func (h *testHost) Registered() uint64 { return h.registered }

// Serves implements Catalog.
func (h *testHost) Serves() bool { return h.serves }

// Confirm implements Catalog.
func (h *testHost) Confirm(ctx context.Context) error {
	h.catalogMu.Lock()
	behind, unsure := h.behind, h.unsure
	h.catalogMu.Unlock()
	if unsure {
		return errWaiting
	}
	if behind == nil {
		return nil
	}
	select {
	case <-behind:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// confirms has Confirm succeed, or fail.
func (h *testHost) confirms(does bool) {
	h.catalogMu.Lock()
	defer h.catalogMu.Unlock()
	h.unsure = !does
}

// restartBehind starts the host again, with an old view that stays until catchUp is called.
func (h *testHost) restartBehind(old *catalog.View, serves bool) {
	h.t.Helper()
	h.stop()
	h.catalogMu.Lock()
	h.views, h.behind, h.serves = metadata.NewViews(old), make(chan struct{}), serves
	h.catalogMu.Unlock()
	h.start(nil)
}

// catchUp shows the view that the catalog has.
func (h *testHost) catchUp() {
	h.catalogMu.Lock()
	defer h.catalogMu.Unlock()
	h.views.Publish(h.catalog.View())
	close(h.behind)
	h.behind = nil
}

func (h *testHost) mustPropose(cmd catalog.Command) catalog.Reply {
	h.t.Helper()
	r, err := h.Propose(h.t.Context(), cmd)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// declare declares a queue whose only member is here, and waits until it has a leader.
func (h *testHost) declare(name string, arguments ...message.Field) id.QueueUID {
	h.t.Helper()
	uid := h.mustPropose(&catalog.DeclareQueue{
		VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Arguments: arguments, Members: []id.NodeID{"a"}, Leader: "a",
	}).UID
	h.led(uid)
	return uid
}

// led waits until a queue has a leader and its configuration.
func (h *testHost) led(uid id.QueueUID) *Led {
	h.t.Helper()
	var l *Led
	h.poll(fmt.Sprintf("queue %s is led", uid), func() error {
		m := h.Member(uid)
		switch {
		case m == nil:
			return errors.New("it is not open")
		case m.Led() == nil:
			return fmt.Errorf("its group is at %+v", m.group.Stats())
		case !m.Led().configured.Load():
			return errors.New("it is not configured")
		}
		l = m.Led()
		return nil
	})
	return l
}

var errWaiting = errors.New("not yet")

// poll waits until f returns nil.
func (h *testHost) poll(what string, f func() error) {
	h.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// do makes a queue apply a command, and waits for the answer.
func (h *testHost) do(uid id.QueueUID, c quorumq.Command, bodies ...[]byte) {
	h.t.Helper()
	type answer struct {
		reply quorumq.Reply
		err   error
	}
	answers := make(chan answer, 1)
	h.Submit(uid, raftfsm.Command{Header: quorumq.AppendCommand(nil, c), Bodies: bodies}, func(r quorumq.Reply, err error) {
		answers <- answer{r, err}
	})
	a := <-answers
	if a.err != nil || a.reply.Code != quorumq.CodeOK {
		h.t.Fatalf("%T: code %d, %v", c, a.reply.Code, a.err)
	}
}

// publish stores messages; the first of them has the number first.
func (h *testHost) publish(uid id.QueueUID, first quorumq.Seq, bodies ...string) {
	h.t.Helper()
	c := &quorumq.Enqueue{Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: first}
	var all [][]byte
	for _, b := range bodies {
		c.Messages = append(c.Messages, quorumq.NewMessage{Size: uint32(len(b)), TTLMs: quorumq.Unlimited})
		all = append(all, []byte(b))
	}
	h.do(uid, c, all...)
}

// consume subscribes the consumer of a node's only session.
func (h *testHost) consume(uid id.QueueUID, node id.NodeID) quorumq.ConsumerKey {
	h.t.Helper()
	k := quorumq.ConsumerKey{SessionKey: quorumq.SessionKey{Node: node, Epoch: 1, Session: 1}, Tag: traffic.ConsumerTag}
	h.do(uid, &quorumq.Checkout{Consumer: k})
	return k
}

// turn makes a worker call do for a queue, in turn with its other tasks.
func (h *testHost) turn(uid id.QueueUID, do func()) {
	h.t.Helper()
	done := make(chan struct{})
	if !h.Member(uid).box.Post(func() { do(); close(done) }) {
		h.t.Fatal("the member is closed")
	}
	<-done
}

// delivered waits for deliveries to consumers of this node.
func (h *testHost) delivered(want ...string) []traffic.Delivery {
	h.t.Helper()
	var ds []traffic.Delivery
	h.poll(fmt.Sprintf("%q is delivered", want), func() error {
		h.seen.mu.Lock()
		defer h.seen.mu.Unlock()
		var got []string
		for _, d := range h.seen.deliveries {
			got = append(got, string(d.Message))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("got %q", got)
		}
		ds = slices.Clone(h.seen.deliveries)
		return nil
	})
	return ds
}
