package deadletter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// matrixRow is a row of the failure matrix: what is wrong, and the outcome of the dead letters.
type matrixRow struct {
	name   string
	setUp  func(w *world)
	cause  Cause
	mend   func(w *world)
	want   map[string]string
	reason quorumq.Reason // of the dead letters' discard
}

// The failure matrix DL-26, row by row. Each row fails first, for the cause, then mends
// what is wrong; then the dead letters a, b and c must be in the target, once and in order.
// TestForwarderMatrixOfSources has the rows that fail nowhere.
func TestForwarderMatrix(t *testing.T) {
	rows := []matrixRow{
		{
			"exchange is missing", nil, CauseNoExchange,
			func(w *world) { w.exchange(catalog.ExchangeFanout); w.bind("target", "") },
			map[string]string{"target": "a b c"},
			quorumq.ReasonRejected,
		},
		{
			"nothing is routed", func(w *world) { w.exchange(catalog.ExchangeDirect) }, CauseUnroutable,
			func(w *world) { w.bind("target", "k") },
			map[string]string{"target": "a b c"},
			quorumq.ReasonRejected,
		},
		{
			"some targets are full", func(w *world) {
				w.exchange(catalog.ExchangeFanout)
				w.declare("small", func(c *quorumq.Config) { c.MaxLength, c.Overflow = 0, quorumq.OverflowRejectPublish })
				w.bind("small", "")
				w.bind("target", "")
			}, CauseFull,
			func(w *world) {
				if got := bodiesOf(w.take(w.uid("target"), 9)); got != "a b c" {
					w.t.Errorf("the target that has room got %q", got)
				}
				w.configure("small", func(c *quorumq.Config) {})
			},
			map[string]string{"small": "a b c", "target": ""},
			quorumq.ReasonRejected,
		},
		{
			"target lost its quorum", func(w *world) {
				w.exchange(catalog.ExchangeFanout)
				w.bind("target", "")
				w.down[w.uid("target")] = true
			}, CauseUnavailable,
			func(w *world) { w.mend("target") },
			map[string]string{"target": "a b c"},
			quorumq.ReasonRejected,
		},
		{
			"target deleted while pending", func(w *world) {
				w.exchange(catalog.ExchangeFanout)
				w.declare("doomed", nil)
				w.bind("doomed", "")
				w.bind("target", "")
				w.down[w.uid("doomed")] = true
			}, CauseUnavailable,
			func(w *world) { w.delete("doomed", w.uid("doomed")) },
			map[string]string{"target": "a b c"},
			quorumq.ReasonRejected,
		},
		{
			"target deleted and declared again", func(w *world) {
				w.exchange(catalog.ExchangeFanout)
				w.bind("target", "")
				w.down[w.uid("target")] = true
			}, CauseUnavailable,
			func(w *world) {
				w.delete("target", w.uid("target"))
				w.declare("target", nil)
				w.bind("target", "")
			},
			map[string]string{"target": "a b c"},
			quorumq.ReasonRejected,
		},
		{
			"only cyclic targets", func(w *world) {
				w.exchange(catalog.ExchangeFanout)
				w.bind("source", "")
			}, CauseCycle,
			func(w *world) { w.bind("target", "") },
			map[string]string{"target": "a b c", "source": ""},
			quorumq.ReasonExpired,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				source := w.declare("source", atLeastOnce)
				w.declare("target", nil)
				w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
				if row.setUp != nil {
					row.setUp(w)
				}
				w.discard(source, row.reason, "k", "a", "b", "c")
				f, _ := w.start(source, Config{})
				time.Sleep(time.Minute)
				if s := f.Stats(); s.Waiting[row.cause] != 3 || s.LastError == "" || w.backlog(source) != 3 {
					t.Fatalf("backlog %d, waiting %v, error %q", w.backlog(source), s.Waiting, s.LastError)
				}
				row.mend(w)
				time.Sleep(DefaultMaxBackoff)
				synctest.Wait()
				for name, want := range row.want {
					if got := bodiesOf(w.take(w.uid(name), 9)); got != want {
						t.Errorf("queue %s has %q, want %q", name, got, want)
					}
				}
				if s := f.Stats(); w.backlog(source) != 0 || s.LastError != "" || s.Waiting != (Causes{}) {
					t.Errorf("backlog %d, stats %+v", w.backlog(source), s)
				}
				f.Close()
				f.Wait()
			})
		})
	}
}

// The rows of DL-26 that are about the source itself. A row may do something while the dead letters a,
// b and c wait for a target that is down; then that answers again.
func TestForwarderMatrixOfSources(t *testing.T) {
	for _, row := range []struct {
		name  string
		key   string // where dead letters go
		while func(w *world, source id.QueueUID, f **Forwarder, term **term)
		want  map[string]string
	}{
		{"the target is the source", "source", func(*world, id.QueueUID, **Forwarder, **term) {}, map[string]string{"source": "a b c", "target": ""}},
		{"the source's leader fails", "target", func(w *world, source id.QueueUID, f **Forwarder, s **term) {
			(*s).end()
			(*f).Close()
			*f, *s = w.start(source, Config{})
		}, map[string]string{"source": "", "target": "a b c"}},
		{"the source is purged", "target", func(w *world, source id.QueueUID, _ **Forwarder, _ **term) {
			if _, err := w.apply(source, &quorumq.Purge{}, nil); err != nil {
				w.t.Fatal(err)
			}
		}, map[string]string{"source": "", "target": ""}},
		{"the source is deleted", "target", func(w *world, source id.QueueUID, _ **Forwarder, s **term) {
			(*s).end() // the end of its group ends the leader's term
			w.propose(&catalog.DeleteQueue{VHost: "/", Name: "source"})
		}, map[string]string{"target": ""}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				source, target := w.declare("source", atLeastOnce), w.declare("target", nil)
				w.rules["source"] = Rule{Enabled: true, RoutingKey: row.key, HasRoutingKey: true}
				w.down[target] = true
				w.discard(source, quorumq.ReasonRejected, "k", "a", "b", "c")
				f, s := w.start(source, Config{})
				time.Sleep(time.Minute)
				row.while(w, source, &f, &s)
				w.mend("target")
				time.Sleep(2 * DefaultMaxBackoff)
				synctest.Wait()
				for name, want := range row.want {
					if got := bodiesOf(w.take(w.uid(name), 9)); got != want {
						t.Errorf("queue %s has %q, want %q", name, got, want)
					}
				}
				if n := w.backlog(source); n != 0 && row.want["target"]+row.want["source"] != "" {
					t.Errorf("%d dead letters are left", n)
				}
				f.Close()
				f.Wait()
			})
		})
	}
}
