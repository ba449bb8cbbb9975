package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
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
// being emptied long before its DrainDelete command is applied. Any other queue is sealed before it goes: it refuses what
// still comes, so nothing can be in it when the catalog deletes it.
func (h *Host) deleteUnused(ctx context.Context, uid id.QueueUID) {
	q := h.Member(uid)
	if q == nil {
		return
	}
	l := q.led.Load()
	if l == nil {
		return
	}
	err := h.stillLeads(ctx, q)
	v := h.cfg.Views.View()
	r, exists := v.QueueByUID(uid)
	if !exists {
		return
	}
	log := h.cfg.Logger.With("queue", uid.String(), "name", r.Name, "vhost", r.VHost)
	unused, sealed := q.unusedBy(v, r)
	switch {
	case err != nil && q.led.Load() != nil:
		l.notDeleted.warn(log, fmt.Errorf("whether it is still unused is not confirmed: %w", err))
		return
	case err != nil, !unused:
		return
	}
	var remove catalog.Command = &catalog.DeleteQueue{VHost: r.VHost, Name: r.Name, UID: uid}
	text := "unused queue deleted"
	switch {
	case sealed, r.DrainDeleting > 0:
		text = "empty queue deleted"
	case h.cfg.Policies.DrainsBeforeDelete(v, r):
		remove, text = &catalog.DrainDeleteQueue{VHost: r.VHost, Name: r.Name, UID: uid}, "unused queue is emptied for its deletion"
	default:
		unused, err = q.seal(ctx, v)
	}
	if err == nil && !unused {
		return
	}
	if err == nil {
		_, err = h.cfg.Catalog.Propose(ctx, remove)
	}
	if err != nil {
		l.notDeleted.warn(log, err)
		return
	}
	log.Info("an unused queue goes", "what", text)
}

// seal has an unused queue drop its messages and take nothing more, and reports whether it was still unused (QX-3). While
// members may not know the command, what comes goes with the queue.
func (q *Member) seal(ctx context.Context, v *catalog.View) (bool, error) {
	if v.Version() < catalog.VersionSealed {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, unusedCheck)
	defer cancel()
	reply, err := q.group.Propose(ctx, raftfsm.Command{Header: quorumq.AppendCommand(nil, &quorumq.Seal{IfExpired: true})})
	return reply.Count > 0, err
}

// unusedBy reports whether a queue is unused and a view agrees with its state: about the settings in
// force, and about whether the queue is being emptied. A queue that is being emptied must follow the
// newest rules: by older ones it would still take messages. One that is sealed goes in any case.
func (q *Member) unusedBy(v *catalog.View, r *catalog.QueueRecord) (unused, sealed bool) {
	want := q.h.queueConfig(v, r)
	drainDeleting, have := false, quorumq.Config{}
	q.group.Read(func() {
		state := q.machine.Queue()
		unused, sealed, drainDeleting, have = state.Unused(), state.Sealed(), state.DrainDeleting(), state.Config()
	})
	if sealed {
		return true, true
	}
	if !unused || drainDeleting != (r.DrainDeleting > 0) {
		return false, false
	}
	if drainDeleting {
		return have.Rules >= want.Rules, false
	}
	want.Rules = have.Rules
	return have == want, false
}
