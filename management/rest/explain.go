package rest

import (
	"strconv"

	"github.com/quorate/quorate/broker/explain"
)

// explainRoutes explain where messages would go, and why. They change nothing.
func explainRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/exchanges/{vhost}/{name}/explain", tag: management, serve: explainRouting, says: "where a message would go, and what does not match; amq.default is the default exchange; body: routing_keys, headers"},
		{method: "POST", path: "/v1/queues/{vhost}/{name}/dead-letters/explain", tag: management, serve: explainDeadLetter, says: "where a dead letter of a queue would go, and why; body: number and part of a message, or routing_keys; reason"},
	}
}

// explainRouting asks for a message without a key if the body has none, as exchanges of some types
// need none.
func explainRouting(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	keys, err := f.list("routing_keys")
	if err != nil {
		return reply{}, err
	}
	headers, err := f.table("headers")
	if err != nil {
		return reply{}, err
	}
	if len(keys) == 0 {
		keys = []string{""}
	}
	e, err := c.api.Broker.Explain.Routing(c.Context(), c.vhost(), c.exchange(), keys, headers)
	if err != nil {
		return reply{}, err
	}
	return reply{body: object{"queues": ofRouted(e.Queues), "steps": ofSteps(e.Steps)}}, nil
}

// list returns a field that is a list of strings: unlike texts it splits nothing, as commas may be
// part of a key.
func (f fields) list(name string) ([]string, error) {
	if one, is := f[name].(string); is {
		return nil, bad(name, strconv.Quote(one), "want a list of strings")
	}
	return f.texts(name, nil)
}

// explainDeadLetter takes the number of a message, or the keys of one that need not exist.
func explainDeadLetter(c *call) (reply, error) {
	f, err := c.object()
	if err != nil {
		return reply{}, err
	}
	d := explain.DeadLetterQuestion{VHost: c.vhost(), Queue: c.name()}
	number, err := f.number("number", 0)
	if err == nil && number < 0 {
		err = bad("number", strconv.FormatInt(number, 10), "want the number of a message, as the list of messages shows it")
	}
	if err != nil {
		return reply{}, err
	}
	d.Number = uint64(number)
	part, err := f.text("part", "")
	if err == nil {
		d.Part, err = partNamed(part)
	}
	if err != nil {
		return reply{}, err
	}
	if d.Reason, err = f.text("reason", ""); err != nil {
		return reply{}, err
	}
	if d.Keys, err = f.list("routing_keys"); err != nil {
		return reply{}, err
	}
	e, err := c.api.Broker.Explain.DeadLetter(c.Context(), d)
	if err != nil {
		return reply{}, err
	}
	return reply{body: object{
		"strategy": e.Strategy, "exchange": e.Exchange, "routing_keys": orEmpty(e.Keys), "targets": ofRouted(e.Targets), "cyclic": orEmpty(e.Cyclic),
		"cause": e.Cause, "why": e.Why, "settings": ofSettings(e.Settings), "steps": ofSteps(e.Steps), "warnings": orEmpty(e.Warnings),
	}}, nil
}

// ofRouted shows the queues that a message would reach, with the ways there.
func ofRouted(queues []explain.RoutedQueue) []object {
	out := make([]object, len(queues))
	for i := range queues {
		q := &queues[i]
		out[i] = object{
			"name": q.Name, "path": orEmpty(q.Path), "policy": q.Policy, "operator_policy": q.OperatorPolicy, "settings": ofSettings(q.Settings),
		}
	}
	return out
}

// ofSettings shows settings with their origins.
func ofSettings(all []explain.Setting) []object {
	out := make([]object, len(all))
	for i := range all {
		out[i] = object{"argument": all[i].Arg, "value": all[i].Value.String(), "source": all[i].From}
	}
	return out
}

// ofSteps shows the exchanges that routing visits. There may be fewer misses than misses_total.
func ofSteps(steps []explain.RoutingStep) []object {
	out := make([]object, len(steps))
	for i := range steps {
		s := &steps[i]
		misses := make([]object, len(s.Misses))
		for j, m := range s.Misses {
			misses[j] = object{"binding": m.Binding, "why": m.Why}
		}
		out[i] = object{
			"exchange": s.Exchange, "type": s.Type, "via": s.Via, "missing": s.Missing, "taken": orEmpty(s.Taken),
			"misses": misses, "misses_total": s.MissCount,
		}
	}
	return out
}
