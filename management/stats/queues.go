package stats

import (
	"context"
	"time"

	"github.com/quorate/quorate/broker"
)

// takeQueues asks for the figures of all queues.
func (c *Collector) takeQueues(context.Context) (*Queues, error) {
	before := c.queues.newest()
	all, at, silent, err := c.Broker.AllStats()
	if err != nil {
		c.Logger.Debug("the figures of the queues could not be had", "error", err)
		return nil, err
	}
	return newQueues(before, all, at, silent), nil
}

// newQueues adds up figures, and compares them with those before; nil: there are none.
func newQueues(before *Queues, all []broker.LedStats, at time.Time, silent []string) *Queues {
	out := &Queues{At: at, Of: make(map[uint64]*Queue, len(all)), Silent: silent}
	if before != nil && at.Sub(before.At) <= RateWithin {
		out.Over = at.Sub(before.At)
	}
	for i := range all {
		x := &all[i]
		q := &Queue{VHost: x.VHost, Name: x.Name, Leader: x.Leader, Stats: x.Stats}
		if before != nil {
			q.Rates = queueRates(before.Of[x.UID], q, at.Sub(before.At))
		}
		out.Of[x.UID] = q
		out.Totals.add(q.Stats)
		out.Rates.add(&q.Rates)
	}
	return out
}
