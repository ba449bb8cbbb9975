package deadletter

import (
	"slices"

	"github.com/quorate/quorate/id"
)

// load takes the next dead letters of the backlog up while the window has room, a page of those
// that only wait in a step; false when the term is over.
func (r *forwarding) load() bool {
	for wait := 0; r.room() > 0 && len(r.deadLetters)-r.gone < r.cfg.MaxDeadLetters; {
		if wait == pageDeadLetters {
			r.look() // what has happened meanwhile comes first
			return true
		}
		if len(r.page) == 0 {
			if !r.more {
				return true
			}
			if !r.readAhead() {
				return false
			}
			continue
		}
		l := &deadLetter{d: r.page[0]}
		r.page = r.page[1:]
		if l.d.Seq <= r.settled {
			continue // purged since it was read
		}
		r.loaded = l.d.Seq
		r.deadLetters = append(r.deadLetters, l)
		if !r.sweeping() {
			r.sweepAt = len(r.deadLetters)
		}
		if r.reroute(l, true); l.load == nil {
			wait++
		}
	}
	return true
}

// prepare makes ready what goes next in the target queues that can be tried, the first dead letters
// first: what is held of later ones would only keep them out. It reports whether there is room
// for dead letters that are not known yet.
func (r *forwarding) prepare() bool {
	open := make([]id.QueueUID, 0, len(r.targetQueues))
	for uid, n := range r.targetQueues {
		if !n.blocked() {
			open = append(open, uid)
		}
	}
	slices.Sort(open)
	all := true
	for _, uid := range open {
		if n := r.targetQueues[uid]; n != nil {
			all = r.prepareTargetQueue(n, len(open)) && all
		}
	}
	return all
}

// prepareTargetQueue reports whether the whole target queue is ready, or waits for something other than room. It
// takes no more of the window than its share among the target queues.
func (r *forwarding) prepareTargetQueue(n *targetQueue, targetQueues int) bool {
	deadLetters, bytes := r.cfg.window/targetQueues, max(r.cfg.windowBytes, r.cfg.transferBytes)/targetQueues
	for k, size := 0, 0; k < len(n.queue); {
		l := n.queue[k]
		if l.ready() {
			k, size = k+1, size+l.load.size
			continue
		}
		if r.room() == 0 || k > 0 && (k >= deadLetters || size >= bytes) {
			return false
		}
		r.reroute(l, true)
		if k < len(n.queue) && n.queue[k] == l && !l.ready() {
			return true // unreadable for now
		}
	}
	return true
}

// readAhead reads what comes next in the backlog, without messages; false when the term is
// over.
func (r *forwarding) readAhead() bool {
	page, settled, err := r.src.Backlog(r.records[:0], r.loaded, pageDeadLetters)
	if err != nil {
		return false
	}
	r.records, r.page = page[:0], page
	r.forget(settled)
	r.more = len(page) == pageDeadLetters
	return true
}

// room is how many dead letters more may be held (DL-22).
func (r *forwarding) room() int {
	if r.held < r.cfg.Prefetch {
		return r.cfg.Prefetch - r.held
	}
	if r.held < r.cfg.window && r.heldBytes < r.cfg.windowBytes {
		// As many as fit if they are like those held.
		average := max(r.heldBytes/r.held, 1)
		return min(r.cfg.window-r.held, max((r.cfg.windowBytes-r.heldBytes)/average, 1), r.cfg.Prefetch)
	}
	return 0
}

// release lets go of a dead letter's message.
func (r *forwarding) release(l *deadLetter) {
	if l.load != nil {
		r.held--
		r.heldBytes -= l.load.size
		l.load = nil
	}
}

// hold keeps the message of a dead letter while one of its target queues is open.
func (r *forwarding) hold(l *deadLetter, way *routed, take bool) {
	if !r.triable(l) || way.cause == CauseUnreadable {
		r.release(l)
		return
	}
	if way.cause != CauseNone {
		return // only flying targets are left
	}
	if l.load == nil && !take {
		return // a pass over all dead letters must not take up what goes much later
	}
	r.release(l)
	msg, body := way.encode()
	l.load = &load{msg: msg, prio: way.msg.AskedPriority(), size: len(body), body: body}
	l.load.origin = r.cfg.Tracer.Origin(way.msg.Headers)
	r.held++
	r.heldBytes += l.load.size
}

// triable reports whether some target of the dead letter can be tried without waiting.
func (r *forwarding) triable(l *deadLetter) bool {
	return slices.ContainsFunc(l.pending, func(p pendingTarget) bool {
		return !p.flying && r.targetQueues[p.uid] != nil && !r.targetQueues[p.uid].blocked()
	})
}
