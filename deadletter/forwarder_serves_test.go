package deadletter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/quorumq"
)

func (w *world) Serves() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.unserved
}

func (w *world) ServesChanged() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.serves
}

func (w *world) Current() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.old
}

// age has the view be too old to send by, or not.
func (w *world) age(old bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.old = old
}

// serve says that the view was confirmed, or is not any more.
func (w *world) serve(serves bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unserved = !serves
	close(w.serves)
	w.serves = make(chan struct{})
}

// DL-23, EX-16: a node that has just started knows the catalog of its disk. A binding that was
// made while it was away is missing there, so nothing is routed before the view was confirmed.
func TestForwarderWaitsForTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.exchange(catalog.ExchangeFanout)
		source := w.declare("source", atLeastOnce)
		known, later := w.declare("known", nil), w.declare("later", nil)
		w.bind("known", "")
		w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
		w.serve(false)
		w.discard(source, quorumq.ReasonRejected, "k", "a", "b")
		f, _ := w.start(source, Config{})
		time.Sleep(time.Minute)
		if n := w.backlog(source); n != 2 {
			t.Fatalf("%d dead letters are in the backlog, want 2: they were routed by a view that was not confirmed", n)
		}
		if reported := w.purge(f, w.declare("other", atLeastOnce)); reported != 0 { // a purge does not wait for the view
			t.Errorf("a purge meanwhile reports %d arrived", reported)
		}
		w.bind("later", "")
		w.serve(true)
		time.Sleep(time.Second)
		if a, b := bodiesOf(w.take(known, 9)), bodiesOf(w.take(later, 9)); a != "a b" || b != "a b" {
			t.Errorf("the targets have %q and %q", a, b)
		}
		w.serve(false) // the catalog refuses the node
		w.discard(source, quorumq.ReasonRejected, "k", "c")
		f.Wake()
		time.Sleep(time.Minute)
		if n := w.backlog(source); n != 1 {
			t.Errorf("%d dead letters are in the backlog, want 1", n)
		}
		f.Close()
		f.Wait()
	})
}

// DL-10: copies wait as well, as many as Config.MaxCopies.
func TestCopierWaitsForTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.exchange(catalog.ExchangeFanout)
		source, target := w.declare("source", atMostOnce), w.declare("target", nil)
		w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
		w.serve(false)
		w.discard(source, quorumq.ReasonRejected, "k", "a", "b")
		x := NewCopier(Config{}, &term{w: w, uid: source}, w, w)
		x.Add(w.machine(source).copies)
		time.Sleep(time.Minute)
		w.bind("target", "")
		if s := x.Stats(); s.Sent != 0 || s.Lost.Sum() != 0 {
			t.Errorf("stats are %+v before the view was confirmed", s)
		}
		w.serve(true)
		synctest.Wait()
		if got := bodiesOf(w.take(target, 9)); got != "a b" {
			t.Errorf("the target has %q", got)
		}
		w.serve(false)
		x.Add(w.machine(source).copies)
		synctest.Wait()
		x.Close()
		x.Wait()
	})
}

// DL-25: the node was suspended for so long that its source may be deleted, and forgotten by its targets. Its forwarder
// sends nothing by the view from before, whether it was at work or starts. As soon as the view is confirmed it
// continues, also if nothing has changed; or it never does, since the source is deleted.
func TestForwarderStandsByAnOldView(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprint("deleted ", deleted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.exchange(catalog.ExchangeFanout)
				source, target := w.declare("source", atLeastOnce), w.declare("target", nil)
				w.bind("target", "")
				w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
				w.discard(source, quorumq.ReasonRejected, "k", "a")
				w.down[target] = true
				atWork, s := w.start(source, Config{})
				time.Sleep(time.Minute) // it tries again and again
				w.age(true)
				synctest.Wait()
				w.mu.Lock()
				delete(w.down, target)
				before := w.transfers
				w.mu.Unlock()
				starts := NewForwarder(Config{}, s, w, w)
				starts.Wake()
				atWork.Retry(target)
				time.Sleep(time.Minute)
				if n := w.sent(); n != before || w.backlog(source) != 1 {
					t.Errorf("%d Transfers by a view that is too old", n-before)
				}
				starts.Close()
				starts.Wait()
				if deleted { // on this node the queue is still there when the view is confirmed
					w.propose(&catalog.DeleteQueue{VHost: "/", Name: "source"})
				}
				w.age(false)
				time.Sleep(10 * oldViewRetry)
				got, want := bodiesOf(w.take(target, 9)), "a"
				if deleted {
					want = ""
				}
				if got != want {
					t.Errorf("the target has %q, want %q", got, want)
				}
				atWork.Close()
				atWork.Wait()
			})
		})
	}
}

// sent returns how many Transfers were sent.
func (w *world) sent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.transfers
}
