package replica

import (
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

const (
	// forgetAfter is for how long a queue must have been deleted, at least, before other queues forget its dead
	// letters: until then a Transfer of its last leader may still be on its way.
	forgetAfter = 10 * time.Minute
	// maxForgotten limits the sources that one command makes a queue forget.
	maxForgotten = 1000
)

// forget makes the queues that this node leads forget dead letters of queues that are deleted, until stop is closed.
func (h *Host) forget(stop <-chan struct{}) {
	round := time.NewTicker(forgetAfter)
	defer round.Stop()
	before := h.cfg.Views.View()
	for {
		select {
		case <-round.C:
		case <-stop:
			return
		}
		now := h.cfg.Views.View()
		h.forgetDeleted(before)
		before = now
	}
}

// forgetDeleted makes them forget the queues that had been created and deleted by the time of a view. A view that is
// behind names too few of them, never too many.
func (h *Host) forgetDeleted(v *catalog.View) {
	for _, q := range h.Members() {
		if q.led.Load() != nil {
			q.box.post(func() { q.forgetDeleted(v) })
		}
	}
}

// forgetDeleted proposes what forgetting takes; if that fails, the next round does so. Only workers call it.
func (q *Member) forgetDeleted(v *catalog.View) {
	var gone []id.QueueUID
	q.group.Read(func() {
		if q.machine.queue.Config().Rules < quorumq.RulesSeventh {
			return
		}
		for uid := range q.machine.queue.Sources() {
			if _, exists := v.QueueByUID(uid); !exists && uid < v.NextQueueUID() {
				gone = append(gone, uid)
			}
		}
	})
	slices.Sort(gone)
	for some := range slices.Chunk(gone, maxForgotten) {
		q.propose(&quorumq.ForgetSources{Sources: some}, func(error) {})
	}
}
