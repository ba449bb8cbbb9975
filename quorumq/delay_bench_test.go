package quorumq

import (
	"math"
	"runtime"
	"testing"
	"time"
)

// delayedMessages is how many messages wait in the benchmarks.
const delayedMessages = 1 << 20

// fillLater enqueues messages that are due or expire later: with spread at times scattered over as
// many milliseconds as there are messages, otherwise all at the same time.
func fillLater(q *Queue, spread bool, set func(m *NewMessage, ms int64)) {
	ms := benchMessages()
	e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: ms}
	for i := 0; i < delayedMessages; i += len(ms) {
		for j := range ms {
			at := int64(delayedMessages)
			if spread {
				at = int64((i+j)*7919%delayedMessages) + 1
			}
			set(&ms[j], at)
		}
		q.Apply(Meta{Index: uint64(i + 1)}, e)
		e.First += Seq(len(ms))
	}
}

// BenchmarkDelayed measures what a delayed message costs in memory, and what it costs to make it
// ready in time.
func BenchmarkDelayed(b *testing.B) {
	for _, bc := range []struct {
		name   string
		spread bool
	}{{"scattered", true}, {"together", false}} {
		b.Run(bc.name, func(b *testing.B) {
			var memory float64
			for range b.N {
				b.StopTimer()
				before := heapBytes()
				q := New(1024, DefaultConfig())
				fillLater(q, bc.spread, func(m *NewMessage, ms int64) { m.At = Time(ms) })
				memory = float64(heapBytes()-before) / delayedMessages
				m := Meta{Index: 2 * delayedMessages, Now: 2 * delayedMessages}
				b.StartTimer()
				for q.store.delays.set.len() > 0 {
					q.Apply(m, &Expire{})
					m.Index++
				}
				runtime.KeepAlive(q)
			}
			b.ReportMetric(memory, "bytes/delayed")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/delayedMessages, "ns/promotion")
		})
	}
}

// BenchmarkPublishWhileDue publishes one by one while a million messages are due, to expire or to
// become ready. It reports the longest time that one publish took, the best of the runs, and how
// many publishes came in between (TTL-7).
func BenchmarkPublishWhileDue(b *testing.B) {
	for name, set := range map[string]func(m *NewMessage, ms int64){
		"expire":  func(m *NewMessage, ms int64) { m.TTLMs = ms },
		"delayed": func(m *NewMessage, ms int64) { m.At = Time(ms) },
	} {
		b.Run(name, func(b *testing.B) {
			worst, commands := time.Duration(math.MaxInt64), 0
			for range b.N {
				b.StopTimer()
				c := DefaultConfig()
				c.Rules = NewestRules
				q := New(1024, c)
				fillLater(q, true, set)
				e := &Enqueue{Enqueuer: EnqueuerKey{Node: "n2", Epoch: 1}, First: 1, Messages: benchMessages()[:1]}
				e.Messages[0].TTLMs, e.Messages[0].Delay = Unlimited, Delay{}
				m := Meta{Index: 2 * delayedMessages, Now: 2 * delayedMessages}
				longest := time.Duration(0)
				commands = 0
				b.StartTimer()
				for !q.store.nothingDue(q.now) || commands == 0 {
					begin := time.Now()
					q.Apply(m, e)
					longest = max(longest, time.Since(begin))
					m.Index++
					e.First++
					commands++
				}
				worst = min(worst, longest)
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "worst_ms")
			b.ReportMetric(float64(commands), "publishes")
		})
	}
}
