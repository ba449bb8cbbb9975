package quorumq

// Backlog appends up to limit discarded messages with numbers above after, in the order
// of their discards (DL-29).
func (q *Queue) Backlog(dst []Discarded, after Seq, limit int) []Discarded {
	return q.backlog.page(dst, after, limit)
}

// BacklogSettled returns the watermark up to which every backlog number is settled; it is
// Transfer.Settled (DL-25).
func (q *Queue) BacklogSettled() Seq {
	return q.backlog.settledUpTo()
}

// applyBacklogSettle removes forwarded messages, in any order (DL-21). It skips numbers that are
// settled or purged already.
func (q *Queue) applyBacklogSettle(c *BacklogSettle) {
	for _, r := range c.Ranges {
		last := min(r.Last, q.backlog.next-1)
		for s := r.First; s <= last; s++ {
			next, ok := q.backlog.set.next(uint64(s))
			if s = Seq(next); !ok || s > last {
				break
			}
			gone := q.backlog.remove(next)
			if gone.to != 0 {
				q.stats.moved++
			} else {
				q.stats.confirmed++
			}
			q.free(gone.body(), gone.annotations())
		}
	}
}

// abandon drops the dead letters in the backlog if at-least-once has just been switched off and
// Config.OnSwitch asks for that. Moved messages stay (DL-27).
func (q *Queue) abandon(old *Config) {
	way := q.config.OnSwitch
	if way == SwitchUnset {
		way = old.OnSwitch
	}
	if way != SwitchDrop || old.DeadLetter != DeadLetterAtLeastOnce || q.config.DeadLetter == DeadLetterAtLeastOnce {
		return
	}
	for at := uint64(0); ; {
		next, ok := q.backlog.set.next(at)
		if !ok {
			return
		}
		at = next + 1
		if d, _ := q.backlog.set.get(next); d.to != 0 {
			continue
		}
		gone := q.backlog.remove(next)
		q.reply.Count++
		q.stats.abandoned++
		q.stats.abandonedBytes += uint64(gone.size)
		q.free(gone.body(), gone.annotations())
	}
}
