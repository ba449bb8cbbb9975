package limits

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/testnode"
	"github.com/quorate/quorate/message"
)

// BenchmarkManyQuotas measures what 10,000 queues and 1,000 users cost that have a rate each: a publish, each time into
// another queue; the same after a change of the catalog; what a change makes the node check; a round of reports; and
// memory.
func BenchmarkManyQuotas(b *testing.B) {
	const queues, users = 10_000, 1_000
	for _, limited := range []bool{false, true} {
		l, c, p := testLimits(b)
		uids := make([]id.QueueUID, queues)
		for i := range uids {
			uids[i] = declares(b, c, fmt.Sprint("q", i), "")
		}
		var names []string
		for i := range users {
			names = append(names, fmt.Sprint("u", i))
			apply(b, c, &catalog.PutUser{User: catalog.User{Name: names[i], UserLimits: catalog.NoUserLimits()}})
		}
		n := 0
		publish := func() {
			p.held()
			p.Charge(c.View(), p.who, "/", 100)
			l.ChargeQueue(uids[n%queues], 100, &p.Sender)
			n++
		}
		for range queues { // all queues are known
			publish()
		}
		before := heap()
		name := "none/"
		if limited {
			name = "all/"
			apply(b, c, &catalog.PutPolicy{Policy: catalog.Policy{
				VHost: "/", Name: "rates", Pattern: ".*", ApplyTo: catalog.ApplyToQueues,
				Definition: message.Table{{Name: "max-message-rate", Value: message.Int64(1 << 40)}},
			}})
			rated := catalog.NoUserLimits()
			rated.SetLimit(MessageRate, 1<<40)
			for _, u := range names {
				apply(b, c, &catalog.SetUserLimits{User: u, Limits: rated})
			}
			l.lookPolicies(c.View())
			for range queues {
				publish()
			}
			for _, u := range names {
				l.user(c.View(), u).charge(l.now(), 1)
			}
			b.Logf("%d gates, %d bytes each", len(l.all()), (heap()-before)/int64(len(l.all()))) // with -v
		}
		b.Run(name+"publish", func(b *testing.B) {
			for b.Loop() {
				publish()
			}
		})
		change := func() { apply(b, c, &catalog.SetUserLimits{User: "u", Limits: catalog.NoUserLimits()}) }
		b.Run(name+"publish-after-change", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				change()
				b.StartTimer()
				publish()
			}
		})
		b.Run(name+"look-after-change", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				change()
				b.StartTimer()
				l.lookPolicies(c.View())
				l.prune(c.View())
			}
		})
		b.Run(name+"round", func(b *testing.B) {
			for b.Loop() {
				now := l.now()
				for _, g := range l.all() {
					g.endEpisodes(now)
					g.figuresNow(now, true)
					g.Learn("other", clients.QuotaFigures{Messages: 1})
				}
			}
		})
		runtime.KeepAlive(l)
	}
}

// VH-14: nodes report to one another all quotas that are in use, however many.
func TestRoundOfManyQuotas(t *testing.T) {
	l, c, _ := testLimits(t)
	node, now := testnode.Waiting(t), l.now()
	l.node, l.everywhere = node, node.AllClients()
	const users = maxSubjects + 1000
	for i := range users {
		of := clients.QuotaSubject{User: fmt.Sprint("u", i)}
		g := l.gate(of, c.View().Index(), gateLimits{[rates]int64{10, catalog.Unlimited}, catalog.Unlimited})
		g.others["gone"] = wanted{at: now - 2*reportedFor} // the next round forgets it
		g.charge(now, 1)
	}
	if !l.round(t.Context(), true) {
		t.Error("nobody uses a quota")
	}
	left := 0
	for _, g := range l.all() {
		left += len(g.others)
	}
	if left > 0 {
		t.Errorf("%d of %d quotas were left out", left, users)
	}
}

// The gates are checked only once in a while, however often the catalog changes, and the last change counts.
func TestPruneNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, _ := testLimits(t)
		var last pruned
		l.pruneNow(c.View(), &last)
		limitUser(t, c, MessageRate, 10)
		l.user(c.View(), "u")
		limitUser(t, c, MessageRate, catalog.Unlimited)
		later := l.pruneNow(c.View(), &last)
		if later <= 0 || later > pruneEvery || len(l.all()) != 1 {
			t.Errorf("at once: %v, %d gates", later, len(l.all()))
		}
		time.Sleep(later)
		if later := l.pruneNow(c.View(), &last); later != 0 || len(l.all()) != 0 {
			t.Errorf("later: %v, %d gates", later, len(l.all()))
		}
		time.Sleep(2 * pruneEvery)
		if later := l.pruneNow(c.View(), &last); later != 0 {
			t.Errorf("without a change: %v", later)
		}
	})
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
		time.Sleep(time.Millisecond) // finalizers
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
