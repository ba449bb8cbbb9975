package rest

import (
	"strings"

	"github.com/quorate/quorate/broker/queues"
	"github.com/quorate/quorate/management/stats"
)

// queueRoutes show queues. Lists take figures that may be a second old, one queue those of this moment (ST-1).
func queueRoutes() []route {
	return []route{
		{method: "GET", path: "/api/queues", tag: management, serve: listQueues, query: queueQuery(), says: "the queues in all vhosts that the caller may see"},
		{method: "GET", path: "/api/queues/detailed", tag: management, serve: listQueues, query: queueQuery(), says: "the same"},
		{method: "GET", path: "/api/queues/{vhost}", tag: management, serve: listQueues, query: queueQuery(), says: "the queues of a vhost"},
		{method: "GET", path: "/api/users/{user}/queues", tag: management, serve: listUserQueues, query: listQuery(), says: "the queues that a user has declared, in all vhosts that the caller may see"},
		{method: "GET", path: "/api/queues/{vhost}/{name}", tag: management, serve: getQueue, query: oneQuery(append(sampleQuery(), withoutFigures())...), says: "one queue"},
	}
}

// queueQuery are the parameters of lists of queues.
func queueQuery() []parameter {
	return listQuery(append(sampleQuery(), withoutFigures(), flagParam("enable_queue_totals", "shows the figures all the same"))...)
}

// listQueues costs one question to each node, however many queues there are, and describes only the rows that are
// shown, unless the order is that of a figure.
func listQueues(c *call) (reply, error) {
	figures := c.figures() || c.flag("enable_queue_totals")
	l, err := c.api.Broker.Queues.List(c.Context(), c.vhost(), figures)
	if err != nil {
		return reply{}, err
	}
	samples, err := c.agesOfSamples()
	if err != nil {
		return reply{}, err
	}
	newest := &stats.Queues{} // knows no queue
	if figures {
		if newest, err = c.api.Stats.Queues(c.Context()); err != nil {
			return reply{}, err
		}
	}
	all := rows{count: l.Len(), name: l.Name, build: func(i int) object {
		q := l.Queue(i)
		return ofQueue(&q, newest.RatesOf(q.UID)).withGrowth(newest.GrowthOf(q.UID)).withSamples(samples, newest, newest.Of[q.UID])
	}, value: func(i int, path string) (any, bool) {
		if path == "policy" {
			return orNull(l.Policy(i)), true
		}
		q := l.Brief(i)
		return queueValue(&q, newest.RatesOf, path)
	}}
	return c.list(all, l.Silent)
}

// listUserQueues has no figures: who looks for what a user has left behind needs none.
func listUserQueues(c *call) (reply, error) {
	l, err := c.api.Broker.Queues.List(c.Context(), "", false)
	if err != nil {
		return reply{}, err
	}
	var declared []queues.Queue
	for i := range l.Len() {
		if q := l.Queue(i); q.DeclaredBy == c.user() {
			declared = append(declared, q)
		}
	}
	return c.list(of(declared, func(q *queues.Queue) string { return q.Name }, func(q *queues.Queue) object { return ofQueue(q, nil) }), l.Silent)
}

// queueValue is what ofQueue puts at a path, for those that lists are sorted by most.
func queueValue(q *queues.Brief, rates func(uid uint64) *stats.Rates, path string) (v any, known bool) {
	switch path {
	case "vhost":
		return q.VHost, true
	case "leader", "node":
		return orNull(q.Leader), true
	case "state":
		return orNull(q.State), true
	}
	if v, is := figureValue(q, path); is {
		if !q.Known {
			v = nil
		}
		return v, true
	}
	return rateValue(rates(q.UID), path)
}

// figureValue is what addQueueFigures adds at a path.
func figureValue(q *queues.Brief, path string) (v any, is bool) {
	switch path {
	case "messages":
		return q.Messages(), true
	case "messages_ready":
		return q.Ready, true
	case "messages_unacknowledged":
		return q.Unsettled, true
	case "messages_delayed":
		return q.Delayed, true
	case "messages_dlx":
		return q.Backlog, true
	case "message_bytes":
		return q.Bytes, true
	case "consumers":
		return q.Consumers, true
	case "oldest_message_age_ms":
		return q.OldestAgeMs, true
	}
	return nil, false
}

// rateValue is what addRates adds at a path; nil: nothing.
func rateValue(r *stats.Rates, path string) (v any, known bool) {
	if r == nil {
		return nil, false
	}
	switch path {
	case "message_stats.publish_details.rate":
		return r.Publish, true
	case "message_stats.deliver_get_details.rate":
		return r.Deliver, true
	case "message_stats.ack_details.rate":
		return r.Ack, true
	}
	return nil, false
}

func getQueue(c *call) (reply, error) {
	q, err := c.api.Broker.Queues.Get(c.Context(), c.vhost(), c.name())
	if err != nil {
		return reply{}, err
	}
	if !c.figures() {
		q.Stats = nil
		return reply{body: ofQueue(&q, nil)}, nil
	}
	newest, err := c.api.Stats.Queues(c.Context())
	if err != nil {
		return reply{}, err
	}
	samples, err := c.agesOfSamples()
	if err != nil {
		return reply{}, err
	}
	out := ofQueue(&q, newest.RatesOf(q.UID)).withGrowth(newest.GrowthOf(q.UID)).withSamples(samples, newest, newest.Of[q.UID])
	if q.Stats != nil {
		out["dead_letters"] = ofDeadLetters(q.Stats)
	}
	return reply{body: out}, nil
}

// ofDeadLetters shows what is known of a queue's dead letters (DL-52), strategies in the words of queues' settings. The
// counts by cause are those of the present
// leader, the others are counted since the queue exists.
func ofDeadLetters(s *queues.Stats) object {
	discarded := make([]object, len(s.Discarded))
	for i, d := range s.Discarded {
		discarded[i] = object{"reason": d.Reason, "strategy": strings.ReplaceAll(d.Strategy, "_", "-"), "count": d.Count}
	}
	d := &s.DeadLetters
	return object{
		"discarded": discarded, "confirmed": s.DeadLetterConfirmed, "abandoned": s.Abandoned,
		"waiting": counts(d.Waiting), "retries": counts(d.Retries), "lost": counts(d.Lost),
	}
}

// counts is a table of counts that is never null in JSON.
func counts(of map[string]uint64) map[string]uint64 {
	if of == nil {
		return map[string]uint64{}
	}
	return of
}

// ofQueue gives a queue the names that RabbitMQ's HTTP API has. Without figures their fields are absent.
func ofQueue(q *queues.Queue, rates *stats.Rates) object {
	out := object{
		"name": q.Name, "vhost": q.VHost, "type": q.Type, "durable": q.Durable, "auto_delete": q.AutoDelete, "exclusive": q.Exclusive,
		"arguments": orEmpty(q.Arguments), "policy": orNull(q.Policy), "operator_policy": orNull(q.OperatorPolicy),
		"effective_policy_definition": orEmpty(q.EffectivePolicy), "members": q.Members,
		"metadata": object{"declared_by": q.DeclaredBy, "uid": q.UID},
	}
	if q.State != "" {
		out["state"], out["online"] = q.State, orEmpty(q.Online)
	}
	if q.Leader != "" {
		out["leader"], out["node"] = q.Leader, q.Leader
	}
	if q.Stats != nil {
		addQueueFigures(out, q.Stats)
		addRates(out, rates)
	}
	return out
}

// addQueueFigures adds what the queue's leader has counted.
func addQueueFigures(out object, s *queues.Stats) {
	all := s.Ready + s.Unsettled + s.Delayed + s.Backlog
	out["messages"], out["messages_ready"], out["messages_unacknowledged"] = all, s.Ready, s.Unsettled
	out["messages_delayed"], out["messages_dlx"], out["messages_ready_returned"] = s.Delayed, s.Backlog, s.Returned
	out["messages_persistent"] = all
	out["message_bytes"] = s.ReadyBytes + s.UnsettledBytes + s.DelayedBytes + s.BacklogBytes
	out["message_bytes_ready"], out["message_bytes_unacknowledged"], out["message_bytes_dlx"] = s.ReadyBytes, s.UnsettledBytes, s.BacklogBytes
	out["message_bytes_persistent"] = out["message_bytes"]
	out["consumers"] = s.Consumers
	out["oldest_message_age_ms"], out["oldest_dead_letter_age_ms"] = s.OldestMessageAgeMs, s.OldestBacklogAgeMs
	out["delivery_limit"] = s.DeliveryLimit
	if s.Consumers > 0 {
		capacity := float64(s.ConsumersIdle) / float64(s.Consumers)
		out["consumer_capacity"], out["consumer_utilisation"] = capacity, capacity
	}
	out["message_stats"] = object{
		"publish": s.Enqueued, "deliver_get": s.Delivered, "deliver": s.Delivered - min(s.Delivered, s.Gets), "get": s.Gets, "get_empty": s.EmptyGets,
		"redeliver": s.Redelivered, "ack": s.Settled,
	}
	if len(s.DeadLettered) > 0 {
		out["dead_lettered"] = s.DeadLettered
	}
	if s.LastDeadLetterError != "" {
		out["dead_letter_trouble"] = s.LastDeadLetterError
	}
}

// addRates adds how fast the counts of message_stats change; nil: it is not known.
func addRates(out object, r *stats.Rates) {
	counts, are := out["message_stats"].(object)
	if !are || r == nil {
		return
	}
	for field, rate := range map[string]float64{
		"publish": r.Publish, "confirm": r.Confirm, "deliver_get": r.Deliver, "deliver": max(0, r.Deliver-r.Get), "get": r.Get,
		"redeliver": r.Redeliver, "ack": r.Ack,
	} {
		if _, is := counts[field]; is {
			counts[field+"_details"] = object{"rate": rate}
		}
	}
}

// withGrowth adds how fast the messages become more that an object counts; nil: it is not known.
func (o object) withGrowth(g *stats.Growth) object {
	if _, counts := o["messages"]; !counts || g == nil {
		return o
	}
	for field, rate := range map[string]float64{"messages": g.Messages, "messages_ready": g.Ready, "messages_unacknowledged": g.Unsettled} {
		o[field+"_details"] = object{"rate": rate}
	}
	return o
}

// orNull is null for an empty name.
func orNull(name string) any {
	if name == "" {
		return nil
	}
	return name
}
