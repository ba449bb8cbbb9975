package rest

import (
	"time"

	"github.com/quorate/quorate/management/stats"
)

// maxAge bounds how far back samples are asked for, in seconds.
const maxAge = 1 << 31

// sampleQuery are the parameters that ask for samples beside the rates.
func sampleQuery() []parameter {
	return []parameter{
		countParam("lengths_age", "shows samples of how many messages there were, of so many last seconds"),
		countParam("lengths_incr", "is accepted: the samples are those that were collected, and no others"),
		countParam("msg_rates_age", "shows samples of what was counted, of so many last seconds"),
		countParam("msg_rates_incr", "is accepted, as lengths_incr is"),
	}
}

// ages are how far back samples are asked for; 0: none are.
type ages struct{ lengths, counts time.Duration }

// agesOfSamples reads the parameters of sampleQuery.
func (c *call) agesOfSamples() (a ages, err error) {
	for name, to := range map[string]*time.Duration{"lengths_age": &a.lengths, "msg_rates_age": &a.counts, "lengths_incr": nil, "msg_rates_incr": nil} {
		seconds, err := c.count(name, maxAge)
		if err != nil {
			return a, err
		}
		if to != nil {
			*to = time.Duration(seconds) * time.Second
		}
	}
	return a, nil
}

// withSamples adds samples of a queue to its rates, newest first: those that the collector has, or what is shown of the
// queue now if it has none yet. A rate that is not known yet is 0.
func (o object) withSamples(a ages, newest *stats.Queues, q *stats.Queue) object {
	if a == (ages{}) {
		return o
	}
	of := func(in object, age time.Duration, field string, value func(p *stats.Past) uint64) {
		shown, is := in[field]
		if !is || age == 0 {
			return
		}
		details, is := in[field+"_details"].(object)
		if !is {
			details = object{"rate": 0.0}
			in[field+"_details"] = details
		}
		if q == nil {
			details["samples"] = []object{{"sample": shown, "timestamp": time.Now().UnixMilli()}}
			return
		}
		now := q.Present()
		samples := []object{{"sample": value(&now), "timestamp": newest.At.UnixMilli()}}
		if q.Past != nil && newest.At.Sub(newest.Before) <= age {
			samples = append(samples, object{"sample": value(q.Past), "timestamp": newest.Before.UnixMilli()})
		}
		details["samples"] = samples
	}
	of(o, a.lengths, "messages", func(p *stats.Past) uint64 { return p.Messages })
	of(o, a.lengths, "messages_ready", func(p *stats.Past) uint64 { return p.Ready })
	of(o, a.lengths, "messages_unacknowledged", func(p *stats.Past) uint64 { return p.Unsettled })
	counts, _ := o["message_stats"].(object)
	of(counts, a.counts, "publish", func(p *stats.Past) uint64 { return p.Publish })
	of(counts, a.counts, "deliver_get", func(p *stats.Past) uint64 { return p.Deliver })
	of(counts, a.counts, "deliver", func(p *stats.Past) uint64 { return p.Deliver - min(p.Deliver, p.Get) })
	of(counts, a.counts, "get", func(p *stats.Past) uint64 { return p.Get })
	of(counts, a.counts, "redeliver", func(p *stats.Past) uint64 { return p.Redeliver })
	of(counts, a.counts, "ack", func(p *stats.Past) uint64 { return p.Ack })
	return o
}
