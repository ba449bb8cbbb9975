package sim

import "github.com/quorate/quorate/quorumq"

// maxDelay bounds what clients ask messages to wait for, in milliseconds.
const maxDelay = 2000

// delay is how long a message must wait, as chosen by a client: mostly no time.
func (w *world) delay() (d quorumq.Delay) {
	if !w.swarm.delays || w.quiet {
		return d
	}
	switch w.rng.IntN(6) {
	case 0:
		d.Ms = 1 + w.rng.Int64N(maxDelay)
	case 1:
		d.At = quorumq.Time(max(w.now+w.rng.Int64N(maxDelay)-maxDelay/4, 0))
	}
	return d
}

// until returns when a delay ends, 0 if it says nothing (DR-4).
func (l *ledger) until(d quorumq.Delay) quorumq.Time {
	switch {
	case d.At > l.now:
		return d.At
	case d.Ms > 0:
		return l.now + quorumq.Time(d.Ms)
	}
	return 0
}

// holdBack records that a copy must not be ready before a time.
func (l *ledger) holdBack(c *copied, until quorumq.Time) {
	listed := c.due > 0
	if c.due = until; until > 0 && !listed {
		l.waiting = append(l.waiting, c)
	}
}

// retried returns until when a copy waits that came back without a wish of its client
// (DR-1, DR-2), 0 if it does not.
func (l *ledger) retried(c *copied, failed bool) quorumq.Time {
	r := &l.config.Retry
	switch {
	case r.Type == quorumq.RetryDisabled, r.Type == quorumq.RetryFailed && !failed, r.Type == quorumq.RetryReturned && failed:
		return 0
	}
	return l.now + quorumq.Time(min(r.MinMs*int64(max(c.failures, 1)), r.MaxMs))
}

// comeDue makes copies ready whose time has come. The time to live of one that was never
// ready begins (DLY-1).
func (l *ledger) comeDue() {
	kept := l.waiting[:0]
	for _, c := range l.waiting {
		switch {
		case c.state != ready || c.due == 0: // it has gone
			c.due = 0
		case c.due > l.now:
			kept = append(kept, c)
		default:
			c.due = 0
			l.begin(c)
			if c.acquired == 0 {
				c.at = l.now
			}
		}
	}
	l.waiting = kept
}

// delayedCount returns how many copies wait.
func (l *ledger) delayedCount() (n int) {
	for _, c := range l.waiting {
		if c.state == ready && c.due > 0 {
			n++
		}
	}
	return n
}
