package broker

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// quotaBroker is loggedInBroker in a cluster that keeps quotas.
func quotaBroker(t testing.TB) (*Broker, *catalog.Catalog, *Sender) {
	t.Helper()
	b, c, ctx := loggedInBroker(t, ".*")
	apply(t, c, &catalog.RaiseVersion{Version: catalog.VersionDeclarers})
	s, err := b.NewSender(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return b, c, s
}

func limitUser(t testing.TB, c *catalog.Catalog, limit string, n int64) {
	t.Helper()
	l := administration.NoUserLimits()
	l.SetLimit(limit, n)
	apply(t, c, &catalog.SetUserLimits{User: "u", Limits: l})
}

func limitVHost(t testing.TB, c *catalog.Catalog, limit string, n int64) {
	t.Helper()
	l := administration.NoVHostLimits()
	l.SetLimit(limit, n)
	apply(t, c, &catalog.SetVHostLimits{VHost: "/", Limits: l})
}

// sends publishes messages as a stream does, and returns how long it took. It leaves out permissions:
// what matches their patterns has a clock of its own.
func sends(t *testing.T, s *Sender, messages, bytes int) time.Duration {
	t.Helper()
	began := time.Now()
	for range messages {
		if err := s.AwaitQuotas(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		s.charge(s.b.view(), "/", bytes)
	}
	return time.Since(began)
}

// sendsTo is sends by somebody without name, into a queue.
func sendsTo(t *testing.T, b *Broker, s *Sender, queue string, messages int) time.Duration {
	t.Helper()
	began := time.Now()
	for range messages {
		p := &Publish{VHost: "/", RoutingKey: queue, Body: make([]byte, 100), Sender: s}
		if err := b.AwaitQuotas(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		b.Publish(t.Context(), p, func(r Result) {
			if r.Kind != Confirmed || r.Queues != 1 {
				t.Errorf("%+v", r)
			}
		})
	}
	return time.Since(began)
}

func lasts(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want*97/100 || got > want*103/100 {
		t.Errorf("%s: took %v, want %v", what, got, want)
	}
}

// VH-14, VH-15: rates of a user, a vhost and a queue, of messages and of bytes, each by itself; the
// lowest counts.
func TestRatesHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, s := quotaBroker(t)
		if d := sends(t, s, 1000, 100); d != 0 {
			t.Errorf("without limits: %v", d)
		}
		limitUser(t, c, connections.LimitMessageRate, 100)
		lasts(t, "a user's messages", sends(t, s, 1010, 100), 10*time.Second)
		limitUser(t, c, connections.LimitByteRate, 10_000)
		lasts(t, "a user's bytes", sends(t, s, 110, 1000), 11*time.Second)
		limitVHost(t, c, connections.LimitMessageRate, 5)
		lasts(t, "a vhost's messages", sends(t, s, 101, 100), 20*time.Second)
		limitVHost(t, c, connections.LimitMessageRate, catalog.Unlimited)
		limitUser(t, c, connections.LimitByteRate, catalog.Unlimited)
		if d := sends(t, s, 1000, 100); d > lookAgain {
			t.Errorf("without limits again: %v", d)
		}
		counts, waiting := b.QuotaCounts()
		if got := counts[0]; got.Quota != connections.LimitMessageRate || got.Reached != 1 || got.Held < 9*time.Second || waiting != 0 {
			t.Errorf("%+v, %d wait", got, waiting)
		}
	})
}

// VH-15: so do those of a queue, whoever publishes into it and however; others are not held back.
func TestRateOfQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, _ := quotaBroker(t)
		apply(t, c, &catalog.DeclareQueue{
			VHost: "/", Name: "rated", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n"}, Leader: "n",
			Arguments: message.Table{{Name: "x-max-message-rate", Value: message.Int64(10)}},
		})
		b.cfg.Authenticate = false
		b.open = func(id.QueueUID) (enqueuer, error) { return discarding{}, nil }
		sender := func() *Sender { return &Sender{b: b, enter: func(string) error { return nil }} }
		lasts(t, "on one stream", sendsTo(t, b, sender(), "rated", 101), 10*time.Second)
		began := time.Now()
		for range 100 {
			sendsTo(t, b, sender(), "rated", 1) // as PublishOne does
		}
		lasts(t, "one by one", time.Since(began), 10*time.Second)
		if d := sendsTo(t, b, sender(), "q", 1000); d != 0 {
			t.Errorf("into another queue: %v", d)
		}
	})
}

// VH-14: who waits is told shortly before its deadline, and goes on when the limit is taken away.
func TestWaitsForQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, s := quotaBroker(t)
		limitVHost(t, c, connections.LimitMessageRate, 0)
		var view atomic.Pointer[catalog.View] // the catalog itself belongs to one goroutine
		view.Store(c.View())
		b.view = view.Load
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		began := time.Now()
		err := s.AwaitQuotas(ctx, "/")
		var e *failure.Error
		if !errors.As(err, &e) || e.Class != failure.ResourceExhausted || ctx.Err() != nil || time.Since(began) < 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if want := `RESOURCE_EXHAUSTED: vhost "/": max-message-rate = 0: is reached`; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		time.AfterFunc(time.Second, func() {
			limitVHost(t, c, connections.LimitMessageRate, catalog.Unlimited)
			view.Store(c.View())
		})
		if d := sends(t, s, 1, 0); d < time.Second || d > time.Second+lookAgain {
			t.Errorf("went on after %v", d)
		}
	})
}

// VH-16: a vhost is full at its limit and until it holds less than 95 % of it.
func TestStoredBytesAgain(t *testing.T) {
	b, c, s := quotaBroker(t)
	limitVHost(t, c, connections.LimitStoredBytes, 1000)
	g := b.quotas.vhost(c.View(), "/")
	for _, x := range []struct {
		holds uint64
		full  bool
	}{{0, false}, {999, false}, {1000, true}, {2000, true}, {951, true}, {950, true}, {949, false}, {999, false}, {1000, true}} {
		g.holding(b.quotas.now(), x.holds)
		h, held := s.Held("/")
		if held != x.full || held && !h.Stored || h.Full() != x.full {
			t.Errorf("with %d bytes: held %v %+v", x.holds, held, h)
		}
	}
	limitVHost(t, c, connections.LimitStoredBytes, 5000)
	if _, held := s.Held("/"); held {
		t.Error("held back after the limit was raised")
	}
}

// VH-17: until the version with declarers is finalised queues get none; the node itself is nobody.
func TestDeclarer(t *testing.T) {
	b, c, ctx := loggedInBroker(t, ".*")
	is := func(ctx context.Context, want string) {
		t.Helper()
		if by, err := b.declarer(ctx); by != want || err != nil {
			t.Errorf("%q, %v; want %q", by, err, want)
		}
	}
	apply(t, c, &catalog.RaiseVersion{Version: catalog.VersionDeclarers - 1})
	is(ctx, "")
	apply(t, c, &catalog.RaiseVersion{Version: catalog.VersionDeclarers})
	is(ctx, "u")
	is(identity.WithIdentity(t.Context(), identity.Itself()), "")
	if by, err := b.declarer(t.Context()); err == nil {
		t.Errorf("somebody who has not logged in is %q", by)
	}
	b.cfg.Authenticate = false
	is(t.Context(), "")
}

// declares makes a queue that a user has declared.
func declares(t *testing.T, c *catalog.Catalog, queue, user string) {
	t.Helper()
	apply(t, c, &catalog.DeclareQueue{
		VHost: "/", Name: queue, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n"}, Leader: "n", DeclaredBy: user,
	})
}

// VH-17: while the queues that a user has declared hold too much, the user waits, and whoever has published into one of
// them does before its next message; who publishes elsewhere goes on, and the user's rates bound nobody else.
func TestStoredBytesOfUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, s := quotaBroker(t)
		declares(t, c, "mine", "u")
		limitUser(t, c, connections.LimitStoredBytes, 1000)
		b.quotas.lookUsers(c.View())
		b.cfg.Authenticate = false
		b.open = func(id.QueueUID) (enqueuer, error) { return discarding{}, nil }
		other := &Sender{b: b, enter: func(string) error { return nil }}
		g := b.quotas.user(c.View(), "u")
		g.holding(b.quotas.now(), 1000)
		if h, held := s.Held("/"); !held || !h.Stored || !h.Full() {
			t.Errorf("the user: %+v, %v", h, held)
		} else if err, want := h.Error().Error(), `RESOURCE_EXHAUSTED: user "u": max-stored-bytes = 1000: is reached`; !strings.HasPrefix(err, want) {
			t.Errorf("%s, want %s", err, want)
		}
		into := func(queue string) bool {
			b.Publish(t.Context(), &Publish{VHost: "/", RoutingKey: queue, Sender: other}, func(Result) {})
			_, held := other.Held("/")
			return held
		}
		if into("q") {
			t.Error("who publishes elsewhere is held back")
		}
		if !into("mine") {
			t.Error("who publishes into the user's queue is not held back")
		}
		g.holding(b.quotas.now(), 100)
		if into("mine") || (Hold{}).Full() {
			t.Error("held back while there is room")
		}
		both := catalog.NoUserLimits()
		both.MaxStoredBytes, both.MaxMessageRate = 1000, 0
		apply(t, c, &catalog.SetUserLimits{User: "u", Limits: both})
		if into("mine") {
			t.Error("the rate of the user whose queue it is holds back somebody else")
		}
		apply(t, c, &catalog.DeleteUser{Name: "u"})
		apply(t, c, &catalog.PutUser{User: catalog.User{Name: "u", UserLimits: catalog.NoUserLimits()}})
		limitUser(t, c, connections.LimitStoredBytes, 0)
		if into("mine") {
			t.Error("the queue counts for another user of the same name")
		}
	})
}

// VH-14: what another node wants counts for 3 s, and what is not known holds nobody back.
func TestPartsOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, s := quotaBroker(t)
		b.quotas.nodes.Store(2)
		limitUser(t, c, connections.LimitMessageRate, 100)
		subject := clients.QuotaSubject{User: "u"}
		exchange := func(wants float64) {
			b.clients.Exchange(subject, "other", clients.QuotaFigures{Messages: wants})
		}
		lasts(t, "an even part of what is not known yet", sends(t, s, 105, 1), 2*time.Second)
		exchange(30)
		lasts(t, "beside one that wants little", sends(t, s, 140, 1), 2*time.Second)
		exchange(math.Inf(1))
		lasts(t, "beside one that wants all", sends(t, s, 100, 1), 2*time.Second)
		<-time.After(2 * toldFor)
		g := b.quotas.known(subject)
		g.holding(b.quotas.now(), 0)
		if len(g.others) > 0 {
			t.Errorf("remembers %v", g.others)
		}
		limitUser(t, c, connections.LimitMessageRate, catalog.Unlimited)
		b.quotas.prune(c.View())
		if len(b.quotas.all()) > 0 {
			t.Error("a gate without limits is kept")
		}
	})
}

// What has no quotas pays next to nothing, and nobody allocates.
func TestQuotaAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("allocations are not those of a normal build")
	}
	_, c, s := quotaBroker(t)
	for _, limited := range []bool{false, true} {
		if limited {
			limitUser(t, c, connections.LimitMessageRate, 1<<40)
			limitVHost(t, c, connections.LimitStoredBytes, 1<<40)
		}
		if n := testing.AllocsPerRun(1000, func() {
			if _, held := s.Held("/"); held {
				t.Fatal("held")
			}
			s.charge(c.View(), "/", 100)
		}); n != 0 {
			t.Errorf("limited %v: %v allocations", limited, n)
		}
	}
}

// BenchmarkQuotas compares what quotas cost with a whole publish that stores nothing.
func BenchmarkQuotas(b *testing.B) {
	for _, limited := range []bool{false, true} {
		x, c, s := quotaBroker(b)
		name := "none/"
		if limited {
			limitUser(b, c, connections.LimitMessageRate, 1<<40)
			limitVHost(b, c, connections.LimitByteRate, 1<<40)
			name = "two/"
		}
		v := c.View()
		b.Run(name+"alone", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Held("/")
				s.charge(v, "/", 900)
			}
		})
		b.Run(name+"publish", func(b *testing.B) {
			b.ReportAllocs()
			p := &Publish{VHost: "/", RoutingKey: "q", Body: make([]byte, 900), Sender: s}
			done, ctx := func(Result) {}, context.Background()
			for b.Loop() {
				s.Held("/")
				x.Publish(ctx, p, done)
			}
		})
	}
}
