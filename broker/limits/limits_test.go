package limits

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// publisher is a Sender with the user who publishes by it; nil stands for a user without a name.
type publisher struct {
	Sender
	who *identity.Identity
}

func (p *publisher) held() (Hold, bool) { return p.Held(p.who, "/") }

// testLimits returns the limits of a node without a cluster. Its catalog has the user u, who may do everything in the
// vhost "/", and the queue q.
func testLimits(t testing.TB) (*Limits, *catalog.Catalog, *publisher) {
	t.Helper()
	c := catalog.New()
	apply(t, c, &catalog.RegisterNode{ID: "n", Epoch: 1})
	declares(t, c, "q", "")
	apply(t, c, &catalog.PutUser{User: catalog.User{Name: "u", UserLimits: catalog.NoUserLimits()}})
	apply(t, c, &catalog.SetPermission{Permission: catalog.Permission{User: "u", VHost: "/", Write: ".*"}})
	apply(t, c, &catalog.RaiseVersion{Version: catalog.VersionDeclarers})
	log := slog.New(slog.DiscardHandler)
	l := New(Config{
		View: c.View, Clients: clients.New(), Policies: new(policy.Matcher), Emit: func(event.Event) {},
		Permissions: permission.New(permission.Config{View: c.View, Timeouts: new(atomic.Uint64), Log: log}),
	})
	u, _ := c.View().User("u")
	return l, c, &publisher{l.NewSender(), identity.Of(u)}
}

func apply(t testing.TB, c *catalog.Catalog, cmd catalog.Command) {
	t.Helper()
	if r := c.Apply(c.View().Index()+1, 1, cmd); r.Err != nil {
		t.Fatal(r.Err)
	}
}

// declares makes a queue that the user has declared.
func declares(t testing.TB, c *catalog.Catalog, queue, user string) id.QueueUID {
	t.Helper()
	apply(t, c, &catalog.DeclareQueue{
		VHost: "/", Name: queue, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n"}, Leader: "n", DeclaredBy: user,
	})
	rec, _ := c.View().Queue("/", queue)
	return rec.UID
}

func limitUser(t testing.TB, c *catalog.Catalog, limit string, n int64) {
	t.Helper()
	l := catalog.NoUserLimits()
	l.SetLimit(limit, n)
	apply(t, c, &catalog.SetUserLimits{User: "u", Limits: l})
}

func limitVHost(t testing.TB, c *catalog.Catalog, limit string, n int64) {
	t.Helper()
	l := catalog.NoVHostLimits()
	l.SetLimit(limit, n)
	apply(t, c, &catalog.SetVHostLimits{VHost: "/", Limits: l})
}

// sends publishes messages as a stream does, and returns how long that took.
func sends(t *testing.T, p *publisher, messages, bytes int) time.Duration {
	t.Helper()
	began := time.Now()
	for range messages {
		if err := p.Await(t.Context(), p.who, "/", nil); err != nil {
			t.Fatal(err)
		}
		p.Charge(p.l.view(), p.who, "/", bytes)
	}
	return time.Since(began)
}

func lasts(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want*97/100 || got > want*103/100 {
		t.Errorf("%s: took %v, want %v", what, got, want)
	}
}

// VH-14, VH-15: the rates of a user, a vhost and a queue hold back, those of messages and those of bytes. Each does
// alone, and together the lowest counts.
func TestRatesHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, p := testLimits(t)
		if d := sends(t, p, 1000, 100); d != 0 {
			t.Errorf("without limits: %v", d)
		}
		limitUser(t, c, MessageRate, 100)
		lasts(t, "a user's messages", sends(t, p, 1010, 100), 10*time.Second)
		limitUser(t, c, ByteRate, 10_000)
		lasts(t, "a user's bytes", sends(t, p, 110, 1000), 11*time.Second)
		limitVHost(t, c, MessageRate, 5)
		lasts(t, "a vhost's messages", sends(t, p, 101, 100), 20*time.Second)
		limitVHost(t, c, MessageRate, catalog.Unlimited)
		limitUser(t, c, ByteRate, catalog.Unlimited)
		if d := sends(t, p, 1000, 100); d > lookAgain {
			t.Errorf("without limits again: %v", d)
		}
		counts, waiting := l.Counts()
		if got := counts[0]; got.Quota != MessageRate || got.Reached != 1 || got.Held < 9*time.Second || waiting != 0 {
			t.Errorf("%+v, %d wait", got, waiting)
		}
	})
}

// VH-14: a publisher that waits is notified shortly before its deadline, and continues when the limit is lifted.
func TestWaitsForQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, p := testLimits(t)
		limitVHost(t, c, MessageRate, 0)
		var view atomic.Pointer[catalog.View] // the catalog itself belongs to one goroutine
		view.Store(c.View())
		l.view = view.Load
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		began := time.Now()
		err := p.Await(ctx, p.who, "/", nil)
		var e *failure.Error
		if !errors.As(err, &e) || e.Class != failure.ResourceExhausted || ctx.Err() != nil || time.Since(began) < 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if want := `RESOURCE_EXHAUSTED: vhost "/": max-message-rate = 0: is reached`; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		time.AfterFunc(time.Second, func() {
			limitVHost(t, c, MessageRate, catalog.Unlimited)
			view.Store(c.View())
		})
		if d := sends(t, p, 1, 0); d < time.Second || d > time.Second+lookAgain {
			t.Errorf("went on after %v", d)
		}
	})
}

// VH-16: a vhost is full from its limit on, until it holds less than 95 % of it.
func TestStoredBytesAgain(t *testing.T) {
	l, c, p := testLimits(t)
	limitVHost(t, c, StoredBytes, 1000)
	g := l.vhost(c.View(), "/")
	var last Hold // the newest one
	for _, x := range []struct {
		holds uint64
		full  bool
	}{{0, false}, {999, false}, {1000, true}, {2000, true}, {951, true}, {950, true}, {949, false}, {999, false}, {1000, true}} {
		g.holding(l.now(), x.holds)
		h, held := p.held()
		if held {
			last = h
		}
		if held != x.full || held && !h.Stored || last.Full() != x.full {
			t.Errorf("with %d bytes: held %v %+v", x.holds, held, h)
		}
	}
	limitVHost(t, c, StoredBytes, 5000)
	if _, held := p.held(); held {
		t.Error("held back after the limit was raised")
	}
}

// VH-15: a sender waits for a queue that it has published into, until the queue's rate is lifted.
func TestRateOfQueueIsTakenAway(t *testing.T) {
	l, c, p := testLimits(t)
	q, _ := c.View().Queue("/", "q")
	apply(t, c, &catalog.PutPolicy{Policy: catalog.Policy{
		VHost: "/", Name: "rate", Pattern: ".*", ApplyTo: catalog.ApplyToQueues,
		Definition: message.Table{{Name: MessageRate, Value: message.Int64(0)}},
	}})
	l.ChargeQueue(q.UID, 1, &p.Sender)
	if h, held := p.held(); !held || h.Stored {
		t.Errorf("with a rate of 0: held %v, %+v", held, h)
	}
	apply(t, c, &catalog.DeletePolicy{VHost: "/", Name: "rate"})
	if h, held := p.held(); held {
		t.Errorf("without a rate: %+v", h)
	}
}

// VH-17: while the queues that a user has declared hold too much, the user waits. A publisher that has published into
// one of them waits before its next message, and one that publishes elsewhere does not. The user's rates hold back
// nobody else.
func TestStoredBytesOfUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, p := testLimits(t)
		mine, other := declares(t, c, "mine", "u"), &publisher{Sender: l.NewSender()}
		q, _ := c.View().Queue("/", "q")
		limitUser(t, c, StoredBytes, 1000)
		if l.BoundsQueues() {
			t.Error("a limit counts before the view with it was looked at")
		}
		if l.lookUsers(c.View()); !l.BoundsQueues() || !l.MayBoundQueues() {
			t.Error("what the queues of a user hold is not bounded")
		}
		g := l.user(c.View(), "u")
		g.holding(l.now(), 1000)
		if h, held := p.held(); !held || !h.Stored || !h.Full() {
			t.Errorf("the user: %+v, %v", h, held)
		} else if err, want := h.Error().Error(), `RESOURCE_EXHAUSTED: user "u": max-stored-bytes = 1000: is reached`; !strings.HasPrefix(err, want) {
			t.Errorf("%s, want %s", err, want)
		}
		into := func(queue id.QueueUID) bool {
			l.ChargeQueue(queue, 1, &other.Sender)
			_, held := other.held()
			return held
		}
		if into(q.UID) {
			t.Error("who publishes elsewhere is held back")
		}
		if !into(mine) {
			t.Error("who publishes into the user's queue is not held back")
		}
		g.holding(l.now(), 100)
		if into(mine) || (Hold{}).Full() {
			t.Error("held back while there is room")
		}
		both := catalog.NoUserLimits()
		both.MaxStoredBytes, both.MaxMessageRate = 1000, 0
		apply(t, c, &catalog.SetUserLimits{User: "u", Limits: both})
		if into(mine) {
			t.Error("the rate of the user whose queue it is holds back somebody else")
		}
		apply(t, c, &catalog.DeleteUser{Name: "u"})
		apply(t, c, &catalog.PutUser{User: catalog.User{Name: "u", UserLimits: catalog.NoUserLimits()}})
		limitUser(t, c, StoredBytes, 0)
		if into(mine) {
			t.Error("the queue counts for another user of the same name")
		}
	})
}

// VH-14: what another node wants counts for 3 s. Without a report, nobody is held back.
func TestPartsOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, p := testLimits(t)
		l.nodes.Store(2)
		limitUser(t, c, MessageRate, 100)
		subject := clients.QuotaSubject{User: "u"}
		exchange := func(wants float64) {
			l.clients.Exchange(subject, "other", clients.QuotaFigures{Messages: wants})
		}
		lasts(t, "an even part of what is not known yet", sends(t, p, 105, 1), 2*time.Second)
		exchange(30)
		lasts(t, "beside one that wants little", sends(t, p, 140, 1), 2*time.Second)
		exchange(math.Inf(1))
		lasts(t, "beside one that wants all", sends(t, p, 100, 1), 2*time.Second)
		<-time.After(2 * reportedFor)
		g := l.known(subject)
		g.holding(l.now(), 0)
		if len(g.others) > 0 {
			t.Errorf("remembers %v", g.others)
		}
		limitUser(t, c, MessageRate, catalog.Unlimited)
		l.prune(c.View())
		if len(l.all()) > 0 {
			t.Error("a gate without limits is kept")
		}
	})
}

// A publish without quotas costs almost nothing, and no publish allocates.
func TestQuotaAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("allocations are not those of a normal build")
	}
	_, c, p := testLimits(t)
	for _, limited := range []bool{false, true} {
		if limited {
			limitUser(t, c, MessageRate, 1<<40)
			limitVHost(t, c, StoredBytes, 1<<40)
		}
		if n := testing.AllocsPerRun(1000, func() {
			if _, held := p.held(); held {
				t.Fatal("held")
			}
			p.Charge(c.View(), p.who, "/", 100)
		}); n != 0 {
			t.Errorf("limited %v: %v allocations", limited, n)
		}
	}
}

// BenchmarkQuotas measures what quotas cost a publish.
func BenchmarkQuotas(b *testing.B) {
	for _, limited := range []bool{false, true} {
		_, c, p := testLimits(b)
		name := "none"
		if limited {
			limitUser(b, c, MessageRate, 1<<40)
			limitVHost(b, c, ByteRate, 1<<40)
			name = "two"
		}
		v := c.View()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.held()
				p.Charge(v, p.who, "/", 900)
			}
		})
	}
}
