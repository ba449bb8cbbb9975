package stats

import (
	"context"
	"time"

	"github.com/quorate/quorate/broker/queues"
)

// collectQueues asks for the figures of all queues.
func (c *Collector) collectQueues(context.Context) (*Queues, error) {
	before := c.queues.newest()
	all, at, silent, err := c.Broker.Queues.AllStats()
	if err != nil {
		c.Logger.Debug("the figures of the queues could not be had", "error", err)
		return nil, err
	}
	return newQueues(before, all, at, silent), nil
}

// newQueues adds up figures, and compares them with those before; nil: there are none.
func newQueues(before *Queues, all []queues.LedStats, at time.Time, silent []string) *Queues {
	out := &Queues{At: at, Of: make(map[uint64]*Queue, len(all)), VHosts: map[string]*VHost{}, Silent: silent}
	if before != nil && at.Sub(before.At) <= RateWithin {
		out.Over, out.Before = at.Sub(before.At), before.At
	}
	queues := make([]Queue, len(all))
	for i := range all {
		x, q := &all[i], &queues[i]
		*q = Queue{VHost: x.VHost, Name: x.Name, Leader: x.Leader, Stats: x.Stats}
		if before != nil {
			was := before.Of[x.UID]
			q.Rates = queueRates(was, q, at.Sub(before.At))
			if was != nil && was.Leader == q.Leader && out.Over > 0 {
				q.Growth = growth(totalsOf(was.Stats), totalsOf(q.Stats), out.Over)
				past := pastOf(was.Stats)
				q.Past = &past
			}
		}
		out.Of[x.UID] = q
		out.Totals.add(q.Stats)
		out.Rates.add(&q.Rates)
		h := out.VHosts[x.VHost]
		if h == nil {
			h = &VHost{}
			out.VHosts[x.VHost] = h
		}
		h.add(q)
	}
	out.grow(before)
	return out
}

// grow compares the vhosts with those before; nil: there are none. While a node does not answer, what it leads is missing,
// which is no growth.
func (q *Queues) grow(before *Queues) {
	if before == nil || q.Over <= 0 || len(q.Silent)+len(before.Silent) > 0 {
		return
	}
	for name, h := range q.VHosts {
		h.Growth = growth(&before.VHost(name).Totals, &h.Totals, q.Over)
	}
}
