package deadletter

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// purge purges a queue as its leader does, and returns how many dead letters it reports.
func (w *world) purge(f *Forwarder, source id.QueueUID) (reported uint64) {
	w.t.Helper()
	answered := make(chan struct{})
	f.Hold(func(arrived uint64, release func()) {
		go func() {
			defer close(answered)
			time.Sleep(time.Millisecond) // the way into the log
			r, err := w.apply(source, &quorumq.Purge{}, nil)
			release()
			if err != nil {
				w.t.Error(err)
			}
			reported = r.Count - min(r.Count, arrived)
		}()
	})
	<-answered
	return reported
}

// a purge at any moment reports exactly those dead letters that never arrive. Short runs, which may have the race
// detector, look at every eighth moment.
func TestPurgeReportsWhatNeverArrives(t *testing.T) {
	const moments = 40
	step := 1
	if testing.Short() {
		step = 8
	}
	for _, faulty := range []float64{0, 0.3} {
		for after := 0; after < moments; after += step {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, uint64(after))
				w.exchange("fanout")
				source := w.declare("source", atLeastOnce)
				targets := []id.QueueUID{w.declare("a", nil), w.declare("b", nil)}
				w.bind("a", "")
				w.bind("b", "")
				w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
				w.faulty, w.slow = faulty, 7*time.Millisecond
				var bodies []string
				for i := range 500 {
					bodies = append(bodies, fmt.Sprint(i))
				}
				w.discard(source, quorumq.ReasonRejected, "k", bodies...)
				f, _ := w.start(source, Config{Prefetch: 20})
				time.Sleep(time.Duration(after) * 5 * time.Millisecond)
				reported := w.purge(f, source)
				if w.backlog(source) != 0 {
					t.Fatal("the backlog is not empty")
				}
				w.discard(source, quorumq.ReasonRejected, "k", "later")
				f.Wake()
				time.Sleep(time.Minute)
				arrived := map[string]bool{}
				for _, target := range targets {
					for _, m := range w.take(target, 1000) {
						arrived[string(m.Body)] = true
					}
				}
				if !arrived["later"] || w.backlog(source) != 0 {
					t.Error("what came after the purge has not arrived")
				}
				delete(arrived, "later")
				if kept := 500 - len(arrived); reported > uint64(kept) || faulty == 0 && reported != uint64(kept) {
					t.Errorf("purged after %d steps: reported are %d dead letters, %d have not arrived", after, reported, kept)
				}
				f.Close()
				f.Wait()
			})
		}
	}
}

// waitingSender hands nothing over, but waits for its target's leader until it is called back.
type waitingSender struct {
	*world
	doubtful bool
}

func (s waitingSender) Transfer(ctx context.Context, _ id.QueueUID, _ *quorumq.Transfer, _ [][]byte) (quorumq.Reply, error) {
	<-ctx.Done()
	if s.doubtful {
		return quorumq.Reply{}, ErrDoubtful
	}
	return quorumq.Reply{}, ctx.Err()
}

// dead letters that wait for a leader of their target are taken back; of those that are sent
// nobody knows, so that they do not count.
func TestPurgeTakesDeadLettersBack(t *testing.T) {
	for doubtful, want := range map[bool]uint64{false: 500, true: 400} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			source, _ := w.waiting(500, quorumq.ReasonRejected)
			f := NewForwarder(Config{Prefetch: 100}, &term{w: w, uid: source}, w, waitingSender{w, doubtful})
			f.Wake()
			synctest.Wait()
			before := time.Now()
			if reported := w.purge(f, source); reported != want {
				t.Errorf("reported are %d dead letters, want %d", reported, want)
			}
			if d := time.Since(before); d < holdWait || d > holdWait+10*time.Millisecond {
				t.Errorf("answers were waited for for %v, want %v", d, holdWait)
			}
			synctest.Wait()
			f.mu.Lock()
			if f.running || len(f.holds) > 0 {
				t.Errorf("running is %t, %d holds", f.running, len(f.holds))
			}
			f.mu.Unlock()
			f.Close()
			f.Wait()
		})
	}
}

// A forwarder that has nothing to do, or is closed, keeps nobody waiting, but sends nothing
// while it is held.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		source, target := w.declare("source", atLeastOnce), w.declare("target", nil)
		w.rules["source"] = Rule{Enabled: true, RoutingKey: "target", HasRoutingKey: true}
		f, s := w.start(source, Config{})
		synctest.Wait()
		var releases []func()
		hold := func() {
			reported := len(releases)
			f.Hold(func(_ uint64, release func()) { releases = append(releases, release) })
			if len(releases) == reported {
				t.Error("it is not held at once")
			}
		}
		hold()
		hold()
		w.discard(source, quorumq.ReasonRejected, "k", "a")
		f.Wake()
		time.Sleep(time.Minute)
		if got := bodiesOf(w.take(target, 9)); got != "" {
			t.Errorf("the target has %q", got)
		}
		releases[0]()
		synctest.Wait()
		if got := bodiesOf(w.take(target, 9)); got != "" {
			t.Errorf("the target has %q", got)
		}
		releases[1]()
		synctest.Wait()
		if got := bodiesOf(w.take(target, 9)); got != "a" {
			t.Errorf("the target has %q", got)
		}
		s.end()
		f.Close()
		f.Wait()
		hold()
	})
}
