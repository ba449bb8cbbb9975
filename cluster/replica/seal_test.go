package replica

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// answer is do for any answer of the queue.
func (h *testHost) answer(uid id.QueueUID, c quorumq.Command) quorumq.Reply {
	h.t.Helper()
	replies := make(chan quorumq.Reply, 1)
	bodies := [][]byte(nil)
	switch c.(type) {
	case *quorumq.Enqueue, *quorumq.Transfer:
		bodies = [][]byte{{1}}
	}
	h.Submit(uid, raftfsm.Command{Header: quorumq.AppendCommand(nil, c), Bodies: bodies}, func(r quorumq.Reply, err error) {
		if err != nil {
			h.t.Errorf("%T: %v", c, err)
		}
		replies <- r
	})
	return <-replies
}

// QX-3, QX-4: what comes between the decision that a queue has expired and the end of its record is refused: it would go
// with the queue, like what the queue holds. So is a use, which would have kept the queue.
func TestExpiredQueueTakesNothing(t *testing.T) {
	t.Parallel()
	for name, holds := range map[string]bool{"an empty queue": false, "one with messages": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expiredTakesNothing(t, holds)
		})
	}
}

func expiredTakesNothing(t *testing.T, holds bool) {
	t.Helper()
	late := &deletesAfter{}
	h := newTestHost(t, func(c *Config) { late.Catalog, c.Catalog = c.Catalog, late })
	h.confirms(false) // until it is known which queue is meant
	uid := h.declare("reports", message.Field{Name: "x-expires", Value: message.Int64(1)},
		message.Field{Name: "x-expires-if-empty", Value: message.Bool(!holds)})
	session := quorumq.SessionKey{Node: "a", Epoch: 1, Session: 1}
	if holds { // one ready, one with a client
		h.publish(uid, 1, "x", "y")
		h.do(uid, &quorumq.Get{Session: session})
	}
	one := []quorumq.NewMessage{{Size: 1, TTLMs: quorumq.Unlimited}}
	commands := []quorumq.Command{
		&quorumq.Enqueue{Enqueuer: quorumq.EnqueuerKey{Node: "b", Epoch: 1}, First: 1, Messages: one},
		&quorumq.Transfer{Source: 1 << 40, DeadLetters: []quorumq.DeadLetter{{Seq: 1, NewMessage: one[0]}}},
		&quorumq.Checkout{Consumer: quorumq.ConsumerKey{SessionKey: session, Tag: traffic.ConsumerTag}},
		&quorumq.Get{Session: session},
		&quorumq.Renew{},
	}
	replies := make([]quorumq.Reply, len(commands))
	late.first = sync.OnceFunc(func() {
		for i, c := range commands {
			replies[i] = h.answer(uid, c)
		}
	})
	h.confirms(true)
	h.goes(uid)
	for i, c := range commands {
		r := replies[i]
		if i < 2 && (r.Stored != 0 || len(r.Refused) != 1) || i >= 2 && r.Code != quorumq.CodeDrainDeleting {
			t.Errorf("%T is answered with %+v, and the queue is deleted", c, r)
		}
	}
}

// lines counts the lines of a log that have a text.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) with(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), text)
}

// A sealed queue asks for its deletion again and again while the catalog has no leader. The log does not say so each time.
func TestSealedQueueIsReportedRarely(t *testing.T) {
	t.Parallel()
	var log lines
	h := newTestHost(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	uid := h.declare("q")
	h.confirms(false)
	began := time.Now()
	h.sealed(uid)
	for range 10 {
		h.deleteUnused(t.Context(), uid)
	}
	if n, most := log.with("not deleted yet"), 1+int(time.Since(began)/firstWarning); n < 1 || n > most {
		t.Errorf("%d warnings, want 1 to %d", n, most)
	}
	h.confirms(true)
	h.goes(uid)
}

// The distances grow up to a limit.
func TestDistancesOfWarnings(t *testing.T) {
	t.Parallel()
	var n notDeleted
	began := time.Unix(1_000_000, 0)
	var at []time.Duration
	for s := range 40 * 60 {
		if now := began.Add(time.Duration(s) * time.Second); n.due(now) {
			at = append(at, now.Sub(began))
		}
	}
	want := []time.Duration{0, 10, 30, 70, 150, 310, 630, 1230, 1830}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(at, want) {
		t.Errorf("warnings after %v, want %v", at, want)
	}
}

// goes waits until the catalog has no record of a queue.
func (h *testHost) goes(uid id.QueueUID) {
	h.t.Helper()
	h.poll("the queue goes", func() error {
		if _, ok := h.views.View().QueueByUID(uid); ok {
			return errWaiting
		}
		return nil
	})
}

// sealed seals a queue.
func (h *testHost) sealed(uid id.QueueUID) {
	h.t.Helper()
	if r := h.answer(uid, &quorumq.Seal{}); r.Count != 1 {
		h.t.Fatalf("an empty queue is not sealed: %+v", r)
	}
}

// failsOnce is a catalog without a leader when a queue is to be deleted for the first time.
type failsOnce struct {
	Catalog
	failed atomic.Bool
}

func (c *failsOnce) Propose(ctx context.Context, cmd catalog.Command) (catalog.Reply, error) {
	if _, deletes := cmd.(*catalog.DeleteQueue); deletes && c.failed.CompareAndSwap(false, true) {
		return catalog.Reply{}, errWaiting
	}
	return c.Catalog.Propose(ctx, cmd)
}

// a queue that is sealed is deleted by its leader, also if who has sealed it is gone, and the catalog has no leader
// at first.
func TestSealedQueueGoes(t *testing.T) {
	t.Parallel()
	late := &failsOnce{}
	h := newTestHost(t, func(c *Config) { late.Catalog, c.Catalog = c.Catalog, late })
	uid := h.declare("q")
	h.publish(uid, 1, "x")
	if r := h.answer(uid, &quorumq.Seal{}); r.Count != 0 {
		t.Fatalf("a queue with a message is sealed: %+v", r)
	}
	h.do(uid, &quorumq.Get{Session: quorumq.SessionKey{Node: "a", Epoch: 1, Session: 1}, AutoAck: true})
	h.sealed(uid)
	h.goes(uid)
	if !late.failed.Load() {
		t.Error("nobody has tried to delete it before")
	}
}

// a queue that was sealed still is when the node of its leader starts again, by its log or by a snapshot, and goes
// once the catalog can be reached.
func TestSealedQueueGoesAfterRestart(t *testing.T) {
	t.Parallel()
	for name, snapshot := range map[string]bool{"log": false, "snapshot": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, nil)
			uid := h.declare("q")
			h.confirms(false)
			h.sealed(uid)
			if snapshot {
				if err := h.Member(uid).group.Snapshot(); err != nil {
					t.Fatal(err)
				}
			}
			h.restartBehind(h.catalogView(), true)
			h.confirms(true) // when it has caught up
			h.led(uid)
			one := []quorumq.NewMessage{{Size: 1, TTLMs: quorumq.Unlimited}}
			enqueue := &quorumq.Enqueue{Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1, Messages: one}
			if r := h.answer(uid, enqueue); r.Code != quorumq.CodeDrainDeleting || len(r.Refused) != 1 {
				t.Errorf("a publish is answered with %+v", r)
			}
			h.catchUp()
			h.goes(uid)
		})
	}
}

// QX-3: before the version of the command is finalised an expired queue is not sealed: members of an older build could not
// read that.
func TestSealsNothingByOlderVersion(t *testing.T) {
	t.Parallel()
	late := &deletesAfter{}
	h := &testHost{t: t, path: t.TempDir(), catalog: catalog.New(), serves: true}
	h.views = metadata.NewViews(h.catalog.View())
	h.start(func(c *Config) { late.Catalog, c.Catalog = c.Catalog, late })
	h.mustPropose(&catalog.RegisterNode{ID: "a", Address: "127.0.0.1:1", Epoch: h.cfg.Epoch})
	h.mustPropose(&catalog.RaiseVersion{Version: catalog.VersionSealed - 1})
	h.confirms(false) // until it is known which queue is meant
	uid := h.declare("reports", message.Field{Name: "x-expires", Value: message.Int64(1)})
	var sealed bool
	late.first = sync.OnceFunc(func() { h.Member(uid).Read(func(q *quorumq.Queue) { sealed = q.Sealed() }) })
	h.confirms(true)
	h.goes(uid)
	if sealed {
		t.Error("the queue was sealed")
	}
}
