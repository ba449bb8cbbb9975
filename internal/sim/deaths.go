package sim

import "slices"

// death is what a message must record about its deaths in a queue (DL-30).
type death struct {
	queue, reason string
	count         uint64
}

// afterwards are the deaths of what is forwarded from a discarded copy, the newest first.
func (c *copied) afterwards() []death {
	if c.dead.To != nil { // moved, or published by a transaction
		return c.deaths
	}
	d := death{queue: c.l.g.name, reason: c.dead.Reason.String(), count: 1}
	all := []death{d}
	for _, o := range c.deaths {
		if o.queue == d.queue && o.reason == d.reason {
			all[0].count += o.count
		} else {
			all = append(all, o)
		}
	}
	return all
}

// judgeDeaths: a dead letter says where and how often it died, and nothing else.
func (l *ledger) judgeDeaths(c *copied) {
	stored, err := l.message(c.ref)
	if err != nil {
		l.broke("body", "body %v cannot be read: %v", c.ref, err)
		return
	}
	var says []death
	for i := range stored.Deaths {
		d := &stored.Deaths[i]
		says = append(says, death{queue: d.Queue, reason: d.Reason, count: d.Count})
	}
	if !slices.Equal(says, c.deaths) {
		l.broke("DL-30", "body %v says that it died %+v, it did %+v", c.ref, says, c.deaths)
	}
}
