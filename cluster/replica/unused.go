package replica

import (
	"context"
	"sync"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/quorumq"
)

// unused gathers queues that this node leads and that ask to be deleted (QX-1). If a deletion
// fails, the queue itself asks again, or its next leader does.
type unused struct {
	wake chan struct{} // of capacity 1

	mu   sync.Mutex // guards uids
	uids map[id.QueueUID]bool
}

func newUnused() *unused {
	return &unused{wake: make(chan struct{}, 1), uids: map[id.QueueUID]bool{}}
}

// add does not block.
func (u *unused) add(q id.QueueUID) {
	u.mu.Lock()
	u.uids[q] = true
	u.mu.Unlock()
	wait.Wake(u.wake)
}

// maxUnusedDeletes limits the queues that are deleted at the same time.
const maxUnusedDeletes = 16

// run deletes queues until ctx ends.
func (u *unused) run(ctx context.Context, remove func(context.Context, id.QueueUID)) {
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, maxUnusedDeletes)
	for {
		select {
		case <-u.wake:
		case <-ctx.Done():
			return
		}
		u.mu.Lock()
		uids := u.uids
		u.uids = map[id.QueueUID]bool{}
		u.mu.Unlock()
		for q := range uids {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			work.Go(func() {
				defer func() { <-slots }()
				remove(ctx, q)
			})
		}
	}
}

// deleteUnused deletes a queue that this node leads, if it is still unused: meanwhile it may have
// been used, or declared again (QX-2). A queue that must dead-letter its messages first is emptied,
// and asks again when it is empty. A request from before that does not count: the queue's
// record may say that it is being emptied long before its DrainDelete command is applied. Once it is empty it refuses
// what still comes, so nothing can be in it when the catalog deletes it.
func (h *Host) deleteUnused(ctx context.Context, uid id.QueueUID) {
	q := h.Member(uid)
	r, exists := h.cfg.Views.View().QueueByUID(uid)
	if q == nil || !exists || q.led.Load() == nil {
		return
	}
	still, drainDeleting, rules := false, false, quorumq.RulesFirst
	q.group.Read(func() {
		still, drainDeleting, rules = q.machine.queue.Unused(), q.machine.queue.DrainDeleting(), q.machine.queue.Config().Rules
	})
	if !still || drainDeleting != (r.DrainDeleting > 0) {
		return
	}
	if drainDeleting && rules < quorumq.RulesOf(uint8(h.cfg.Views.View().Version())) {
		return // it would still take messages
	}
	var remove catalog.Command = &catalog.DeleteQueue{VHost: r.VHost, Name: r.Name, UID: uid}
	text := "unused queue deleted"
	switch {
	case r.DrainDeleting > 0:
		text = "emptied queue deleted"
	case h.cfg.Policies.DrainsBeforeDelete(h.cfg.Views.View(), r):
		remove, text = &catalog.DrainDeleteQueue{VHost: r.VHost, Name: r.Name, UID: uid}, "unused queue is emptied for its deletion"
	}
	if _, err := h.cfg.Catalog.Propose(ctx, remove); err != nil {
		h.cfg.Logger.Warn("an unused queue is not deleted yet", "queue", uid.String(), "name", r.Name, "vhost", r.VHost, "error", err)
		return
	}
	h.cfg.Logger.Info("an unused queue goes", "what", text, "queue", uid.String(), "name", r.Name, "vhost", r.VHost)
}
