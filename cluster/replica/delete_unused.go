package replica

import (
	"context"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// unusedCheck bounds the questions before a queue is deleted: the next one has to wait for their place.
const unusedCheck = 5 * time.Second

// stillLeads fails unless this node's view is confirmed, and then that it leads the queue.
func (h *Host) stillLeads(ctx context.Context, q *Member) error {
	ctx, cancel := context.WithTimeout(ctx, unusedCheck)
	defer cancel()
	if err := h.cfg.Catalog.Confirm(ctx); err != nil {
		return err
	}
	return q.group.Verify(ctx)
}

// deleteUnused deletes a queue that this node leads, if it is still unused by the settings that it
// should have. Meanwhile it may have been used, or declared again (QX-2), perhaps under another
// leader, or its settings may have changed, which this node's view need not show before it is
// confirmed. A queue that must dead-letter its messages first is emptied, and asks again when it is
// empty. A request from before that does not count: the queue's record may say that it is
// being emptied long before its DrainDelete command is applied. Once it is empty it refuses what still
// comes, so nothing can be in it when the catalog deletes it.
func (h *Host) deleteUnused(ctx context.Context, uid id.QueueUID) {
	q := h.Member(uid)
	if q == nil || q.led.Load() == nil {
		return
	}
	err := h.stillLeads(ctx, q)
	v := h.cfg.Views.View()
	r, exists := v.QueueByUID(uid)
	if !exists {
		return
	}
	log := h.cfg.Logger.With("queue", uid.String(), "name", r.Name, "vhost", r.VHost)
	switch {
	case err != nil && q.led.Load() != nil:
		log.Warn("an unused queue is not deleted yet: whether it is still unused is not confirmed", "error", err)
		return
	case err != nil, !q.unusedBy(v, r):
		return
	}
	var remove catalog.Command = &catalog.DeleteQueue{VHost: r.VHost, Name: r.Name, UID: uid}
	text := "unused queue deleted"
	switch {
	case r.DrainDeleting > 0:
		text = "emptied queue deleted"
	case h.cfg.Policies.DrainsBeforeDelete(v, r):
		remove, text = &catalog.DrainDeleteQueue{VHost: r.VHost, Name: r.Name, UID: uid}, "unused queue is emptied for its deletion"
	}
	if _, err := h.cfg.Catalog.Propose(ctx, remove); err != nil {
		log.Warn("an unused queue is not deleted yet", "error", err)
		return
	}
	log.Info("an unused queue goes", "what", text)
}

// unusedBy reports whether a queue is unused and a view agrees with its state: about the settings in
// force, and about whether the queue is being emptied. A queue that is being emptied must follow the
// newest rules: by older ones it would still take messages.
func (q *Member) unusedBy(v *catalog.View, r *catalog.QueueRecord) bool {
	want := q.h.queueConfig(v, r)
	unused, drainDeleting, have := false, false, quorumq.Config{}
	q.group.Read(func() {
		state := q.machine.queue
		unused, drainDeleting, have = state.Unused(), state.DrainDeleting(), state.Config()
	})
	if !unused || drainDeleting != (r.DrainDeleting > 0) {
		return false
	}
	if drainDeleting {
		return have.Rules >= want.Rules
	}
	want.Rules = have.Rules
	return have == want
}
