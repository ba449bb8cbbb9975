package replica

import (
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

const (
	// forgetAfter is for how long a queue must have been deleted, at least, before other queues forget its dead
	// letters: until then a Transfer may still be on its way, of a leader whose view is as old as it may be.
	forgetAfter = 2 * deadletter.MaxViewAge
	// maxForgotten limits the sources that one command makes a queue forget.
	maxForgotten = 1000
)

// forget makes the queues that this node leads forget dead letters of queues that are deleted, until stop is closed.
func (h *Host) forget(stop <-chan struct{}) { oldViews(h.cfg.Views.View, h.forgetDeleted, stop) }

// oldViews calls use again and again until stop is closed, each time with a view that was taken forgetAfter before or
// earlier. It takes the next one only then: the process may have been stopped for a while, and a clock that ticks would
// follow at once.
func oldViews(view func() *catalog.View, use func(*catalog.View), stop <-chan struct{}) {
	wait := time.NewTimer(forgetAfter)
	defer wait.Stop()
	for {
		v := view()
		wait.Reset(forgetAfter)
		select {
		case <-wait.C:
			use(v)
		case <-stop:
			return
		}
	}
}

// forgetDeleted makes them forget the queues that had been created and deleted by the time of a view. A view that is
// behind names too few of them, never too many.
func (h *Host) forgetDeleted(v *catalog.View) {
	for _, q := range h.Members() {
		if q.led.Load() != nil {
			q.box.Post(func() { q.forgetDeleted(v) })
		}
	}
}

// forgetDeleted proposes what forgetting takes; if that fails, the next round does so. Only workers call it.
func (q *Member) forgetDeleted(v *catalog.View) {
	var gone []id.QueueUID
	q.group.Read(func() {
		if q.machine.Queue().Config().Rules < quorumq.RulesSeventh {
			return
		}
		for uid := range q.machine.Queue().Sources() {
			if deletedBy(v, uid) {
				gone = append(gone, uid)
			}
		}
	})
	slices.Sort(gone)
	for some := range slices.Chunk(gone, maxForgotten) {
		q.propose(&quorumq.ForgetSources{Sources: some}, func(error) {})
	}
}
