package replica

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
)

// mayRest waits until a queue may hibernate, and returns the state in which it may.
func (h *testHost) mayRest(uid id.QueueUID) *nodev1.RestingGroup {
	h.t.Helper()
	var w *nodev1.RestingGroup
	h.poll("it may hibernate", func() error {
		if w = h.Member(uid).rests(0); w == nil {
			return errWaiting
		}
		return nil
	})
	return w
}

// lay has a queue hibernate.
func (h *testHost) lay(uid id.QueueUID) {
	h.t.Helper()
	if w := h.mayRest(uid); !h.fallAsleep(h.Member(uid), w, "a") {
		h.t.Fatal("it does not hibernate")
	}
}

// follows waits until the host has followed the view, and its workers have done what that asks of a queue.
func (h *testHost) follows(uid id.QueueUID) {
	h.t.Helper()
	at := h.views.View().Index()
	h.poll("the host follows the view", func() error {
		h.mu.RLock()
		defer h.mu.RUnlock()
		if h.followed < at {
			return errWaiting
		}
		return nil
	})
	if h.Member(uid) != nil {
		h.turn(uid, func() {})
	}
}

// DL-10: a queue does not hibernate while its at-most-once dead letters wait to be sent, because they end with the term.
func TestCopiesKeepQueueAwake(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	h.mayRest(uid)
	h.seen.copying.Store(true)
	if h.Member(uid).rests(0) != nil {
		t.Error("it may hibernate although dead letters wait to be sent")
	}
	h.seen.copying.Store(false)
	h.lay(uid)
}

// A member that is exported stays open until the export has ended, whoever asks it to hibernate.
func TestExportKeepsMemberOpen(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	h.publish(uid, 1, "x")
	w, q := h.mayRest(uid), h.Member(uid)
	emits, free := make(chan struct{}), make(chan struct{})
	begin, end := sync.OnceFunc(func() { close(emits) }), sync.OnceFunc(func() { close(free) })
	defer end()
	exported := make(chan error, 1)
	go func() {
		exported <- q.Export(t.Context(), 0, "/", "q", true, func([]byte) ([]byte, error) {
			begin()
			<-free
			return nil, nil
		})
	}()
	<-emits
	if q.rests(0) != nil {
		t.Error("its leader lets it hibernate")
	}
	if h.fallAsleep(q, w, "a") || h.Member(uid) != q {
		t.Fatal("it hibernates while it is exported")
	}
	end()
	if err := <-exported; err != nil {
		t.Error(err)
	}
	h.lay(uid)
}

// QX-3, TTL-1: what a queue has to do later is known also while its timer is not set, as while an Expire is under way.
func TestDueWhileTimerIsNotSet(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	h.do(uid, &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1,
		Messages: []quorumq.NewMessage{{Size: 1, TTLMs: time.Hour.Milliseconds()}},
	}, []byte("x"))
	before := h.cfg.Clock.NowMs()
	h.timers.Drop(uid)
	w := h.mayRest(uid)
	if in := w.GetDueMs() - before; in < time.Hour.Milliseconds()-60_000 || in > time.Hour.Milliseconds()+60_000 {
		t.Errorf("it is due in %d ms, want an hour; the wire has %d", in, w.GetDueMs())
	}
}

// a queue whose settings have changed does not hibernate before they are in force. Nobody would put them in force
// then: it is not asleep yet when the host compares the settings of queues that are.
func TestNewSettingsKeepQueueAwake(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	w := h.mayRest(uid)
	h.confirms(false) // a leader that has not confirmed its view in its term puts nothing new in force
	h.policy("max-length", 1)
	h.follows(uid)
	if c, _ := h.shape(uid); c.MaxLength == 1 {
		t.Fatal("the settings are in force although the view is not confirmed")
	}
	if h.Member(uid).rests(0) != nil {
		t.Error("it may hibernate with old settings")
	}
	if h.fallAsleep(h.Member(uid), w, "a") {
		t.Fatal("it hibernates with old settings")
	}
	h.confirms(true)
	h.poll("the settings are in force", func() error {
		if c, _ := h.shape(uid); c.MaxLength != 1 {
			return errWaiting
		}
		return nil
	})
	h.lay(uid)
}

// A change of members that begins while a queue is about to hibernate keeps it awake.
func TestChangeKeepsQueueAwake(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	w := h.mayRest(uid)
	h.mustPropose(&catalog.RegisterNode{ID: "b", Address: "127.0.0.1:2", Epoch: 1, Store: "b", Fresh: true, FirstEpoch: 1})
	h.mustPropose(&catalog.BeginMemberChange{UID: uid, Join: "b"})
	h.follows(uid)
	if h.fallAsleep(h.Member(uid), w, "a") || h.Member(uid) == nil {
		t.Error("it hibernates with a change of its members that nobody carries out")
	}
}

// a member that was to hibernate, and does not, begins the deletion that came while it could not be reached.
func TestDeletionOfOneThatStaysAwake(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	h.publish(uid, 1, "x")
	h.mayRest(uid)
	release := h.claim(uid)
	q := h.hides(uid, false)
	h.mustPropose(&catalog.DrainDeleteQueue{VHost: "/", Name: "q", UID: uid})
	h.follows(uid)
	h.stayAwake(q)
	release()
	h.isDeleted(uid)
}

// isDeleted waits until the catalog has deleted a queue.
func (h *testHost) isDeleted(uid id.QueueUID) {
	h.t.Helper()
	h.poll("the queue is deleted", func() error {
		if _, exists := h.catalogView().QueueByUID(uid); exists {
			return errWaiting
		}
		return nil
	})
}

// a queue that hibernated when its nodes stopped is opened at the start if its deletion was decided since.
func TestDeletionOfSleeperAfterStart(t *testing.T) {
	t.Parallel()
	sleepy := func(c *Config) { c.HibernateAfter = time.Hour }
	h := newTestHost(t, sleepy)
	uid, other := h.declare("q"), h.declare("other")
	h.publish(uid, 1, "x")
	h.lay(uid)
	h.lay(other)
	h.stop()
	h.mustPropose(&catalog.DrainDeleteQueue{VHost: "/", Name: "q", UID: uid})
	h.start(sleepy)
	h.isDeleted(uid)
	if h.sleeper(other) == nil {
		t.Error("the other queue does not hibernate any more")
	}
}

// what came while the disk was full, so that queues that hibernate could not be opened, is done when there is room.
func TestSleepersWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid, goes := h.declare("q"), h.declare("goes")
	h.publish(goes, 1, "x")
	h.lay(uid)
	h.lay(goes)
	h.press(wal.PressureFloor)
	h.poll("the disk is full", func() error {
		h.mu.RLock()
		defer h.mu.RUnlock()
		if !h.full {
			return errWaiting
		}
		return nil
	})
	h.policy("max-length", 1)
	h.mustPropose(&catalog.DrainDeleteQueue{VHost: "/", Name: "goes", UID: goes})
	h.follows(uid)
	if h.sleeper(uid) == nil || h.sleeper(goes) == nil {
		t.Fatal("one was opened although the disk is full")
	}
	h.press(wal.PressureNone)
	h.led(uid)
	h.poll("the settings are in force", func() error {
		if c, _ := h.shape(uid); c.MaxLength != 1 {
			return errWaiting
		}
		return nil
	})
	h.isDeleted(goes)
}

// TTL-8: a queue that has something to do does not hibernate while its time is far ahead of the cluster's, because nobody
// would let its time go on. One that has nothing to do may.
func TestAheadOfClockKeepsQueueAwake(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	h.stop()
	h.wall = time.Hour
	h.start(nil)
	due, idle := h.declare("due"), h.declare("idle")
	h.do(due, &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1,
		Messages: []quorumq.NewMessage{{Size: 1, TTLMs: time.Hour.Milliseconds()}},
	}, []byte("x"))
	h.lay(due)
	h.Wake(due)
	h.led(due)
	h.stop()
	h.wall = 0
	h.start(nil)
	h.led(due)
	h.led(idle)
	h.mayRest(idle)
	if ahead := h.Member(due).group.Ahead(); ahead < 59*time.Minute {
		t.Fatalf("the queue is %v ahead, want an hour", ahead)
	}
	if h.Member(due).rests(0) != nil {
		t.Error("it may hibernate, and would expire an hour late")
	}
}

// A queue that wakes with the leader that it had reports no other one: thousands wake and rest again each minute, and would
// push all else out of the events that a node keeps.
func TestWakingIsNoChangeOfLeader(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	changes := func() uint64 {
		h.turn(uid, func() {})
		return h.cfg.Events.Counts()[event.LeaderChanged]
	}
	before := changes()
	h.lay(uid)
	h.Wake(uid)
	h.led(uid)
	if n := changes(); before != 1 || n != 1 {
		t.Errorf("%d changes of the leader, %d when it has hibernated, want 1", before, n)
	}
	m := h.Member(uid)
	_, term := m.group.Leader()
	if err := m.group.StepDown(t.Context(), term); err != nil {
		t.Fatal(err)
	}
	h.poll("the election is reported", func() error {
		if n := changes(); n != 2 {
			return fmt.Errorf("%d changes of the leader, want 2", n)
		}
		return nil
	})
}

// claim keeps a queue from being opened until release is called, or the test ends.
func (h *testHost) claim(uid id.QueueUID) (release func()) {
	claim := make(chan struct{})
	h.mu.Lock()
	h.claims[uid] = claim
	h.mu.Unlock()
	release = sync.OnceFunc(func() { h.release(uid, claim) })
	h.t.Cleanup(release)
	return release
}

// A queue that a client asks for wakes before those that wake for other reasons, however many these are.
func TestClientsWakeFirst(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	asked := h.declare("asked for")
	h.lay(asked)
	var releases []func()
	for i := range maxOpening + 2 {
		uid := h.declare(fmt.Sprint("other ", i))
		h.lay(uid)
		releases = append(releases, h.claim(uid))
		h.WakeInBackground(uid)
		if i >= maxOpening {
			continue // it stays in line
		}
		h.poll("one more is being opened", func() error {
			h.mu.RLock()
			defer h.mu.RUnlock()
			if h.wakers != i+1 || len(h.demand.asked) > 0 {
				return errWaiting
			}
			return nil
		})
	}
	h.Rouse(asked)
	releases[0]() // the only one that comes to its end
	h.led(asked)
}
