package rest

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/messages"
	"github.com/quorate/quorate/message"
)

// messageJobRoutes are about single messages in queues: to show them, and to delete or move those that a filter
// chooses (G-13). The broker checks the rights on the queue and the targets.
func messageJobRoutes() []route {
	const path = "/v1/queues/{vhost}/{name}/messages"
	const body = "; body: filter (numbers, message_ids, headers, dead, death_queue, death_reason, death_exchange), limit, rate, dry_run"
	return []route{
		{method: "GET", path: path, tag: management, serve: withMessages(peekMessages), query: peekQuery(), says: "looks at messages and leaves them as they are"},
		{method: "POST", path: path + "/delete", tag: management, act: changesMessages(audit.OpMessagesDelete), serve: deleteMessages, says: "deletes chosen messages, as an operation" + body},
		{method: "POST", path: path + "/move", tag: management, act: changesMessages(audit.OpMessagesMove), serve: moveMessages, says: "moves chosen messages, as an operation" + body + ", to_queue, or to_exchange and routing_key"},
		{method: "POST", path: path + "/redrive", tag: management, act: changesMessages(audit.OpMessagesRedrive), serve: redriveMessages, says: "moves chosen dead letters back to where they came from, as an operation" + body + ", to_exchange, true for the exchange in place of the queue"},
	}
}

// changesMessages describes a job on messages of the path's queue. A dry run changes nothing, and
// leaves no record.
func changesMessages(op audit.Operation) func(c *call) audit.Act {
	return func(c *call) audit.Act {
		return audit.Act{Operation: op, VHost: c.vhost(), Kind: "queue", Name: c.name()}
	}
}

// numbers returns a field that is a list of numbers of messages; nil if it is absent or null.
func (f fields) numbers(name string) ([]uint64, error) {
	all, is := f[name].([]any)
	if f[name] != nil && !is {
		return nil, bad(name, textOf(f[name]), "want a list of numbers")
	}
	out := make([]uint64, len(all))
	for i, x := range all {
		n, is := x.(json.Number)
		v, err := strconv.ParseUint(n.String(), 10, 64)
		if !is || err != nil {
			return nil, bad(name, textOf(x), "want numbers of messages")
		}
		out[i] = v
	}
	return out, nil
}

// filterOf reads which messages a body chooses; no fields choose all.
func filterOf(f fields) (out messages.Filter, err error) {
	death := &message.DeathOrigin{}
	for name, v := range map[string]*string{"death_queue": &death.Queue, "death_reason": &death.Reason, "death_exchange": &death.Exchange} {
		if *v, err = f.text(name, ""); err != nil {
			return out, err
		}
	}
	out.Death = *death
	if out.Numbers, err = f.numbers("numbers"); err != nil {
		return out, err
	}
	if out.MessageIDs, err = f.texts("message_ids", nil); err != nil {
		return out, err
	}
	if out.Headers, err = f.table("headers"); err != nil {
		return out, err
	}
	out.Dead, err = f.flag("dead", false)
	return out, err
}

// only refuses fields that are not known. A misspelt filter would choose more than is meant.
func (f fields) only(known ...string) error {
	for name := range f {
		found := false
		for _, k := range known {
			found = found || k == name
		}
		if !found {
			return bad(name, "", "is not known here")
		}
	}
	return nil
}

// jobOf reads the body of a job on messages; more are the fields that only this job has.
func (c *call) jobOf(more ...string) (messages.Job, fields, error) {
	j := messages.Job{VHost: c.vhost(), Queue: c.name()}
	f, err := c.object()
	if err != nil {
		return j, f, err
	}
	if err := f.only(append(more, "filter", "limit", "rate", "dry_run")...); err != nil {
		return j, f, err
	}
	chosen, err := f.within("filter")
	if err == nil {
		err = chosen.only("numbers", "message_ids", "headers", "dead", "death_queue", "death_reason", "death_exchange")
	}
	if err == nil {
		j.Filter, err = filterOf(chosen)
	}
	if err != nil {
		return j, f, err
	}
	limit, err := f.number("limit", 0)
	if err != nil {
		return j, f, err
	}
	rate, err := f.number("rate", 0)
	switch {
	case err != nil:
		return j, f, err
	case limit < 0:
		return j, f, bad("limit", strconv.FormatInt(limit, 10), "want 0, for all, or more")
	case rate < 0 || rate > math.MaxUint32:
		return j, f, bad("rate", strconv.FormatInt(rate, 10), "want 0, for no limit, to "+strconv.Itoa(math.MaxUint32)+" messages a second")
	}
	j.Limit, j.Rate = uint64(limit), uint32(rate)
	j.DryRun, err = f.flag("dry_run", false)
	return j, f, err
}

// deleteMessages deletes all ready messages if the filter is empty.
func deleteMessages(c *call) (reply, error) {
	j, _, err := c.jobOf()
	if err != nil {
		return reply{}, err
	}
	return begun(c.api.Broker.Messages.Delete(c.Context(), j))
}

// moveMessages moves to a queue, or to an exchange if the body has to_exchange, be it the default
// exchange.
func moveMessages(c *call) (reply, error) {
	j, f, err := c.jobOf("to_queue", "to_exchange", "routing_key")
	if err != nil {
		return reply{}, err
	}
	to := messages.Target{HasKey: f["routing_key"] != nil}
	for name, v := range map[string]*string{"to_queue": &to.Queue, "to_exchange": &to.Exchange, "routing_key": &to.Key} {
		if *v, err = f.text(name, ""); err != nil {
			return reply{}, err
		}
	}
	switch toExchange := f["to_exchange"] != nil; {
	case (to.Queue != "") == toExchange:
		return reply{}, bad("to_queue", to.Queue, "name either to_queue or to_exchange")
	case !toExchange && to.HasKey:
		return reply{}, bad("routing_key", to.Key, "applies to to_exchange only; a move to a queue keeps messages as they are")
	}
	return begun(c.api.Broker.Messages.Move(c.Context(), j, to))
}

// redriveMessages takes dead letters alone, whatever the filter says.
func redriveMessages(c *call) (reply, error) {
	j, f, err := c.jobOf("to_exchange")
	if err != nil {
		return reply{}, err
	}
	exchange, err := f.flag("to_exchange", false)
	if err != nil {
		return reply{}, err
	}
	return begun(c.api.Broker.Messages.Redrive(c.Context(), j, exchange))
}
