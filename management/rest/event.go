package rest

import (
	"cmp"
	"context"
	"strings"

	"github.com/quorate/quorate/broker/watch"
)

// eventRoutes are about what has happened on the nodes (ST-5) and who has changed what (AU-3).
func eventRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/events", tag: management, serve: watchEvents, query: eventQuery(), says: "what happens on all nodes, as server-sent events"},
		{method: "GET", path: "/v1/audit", tag: administrator, serve: tailAudit, query: auditQuery(), says: "the newest audit records"},
	}
}

// recordQuery are the parameters that choose audit records.
func recordQuery() []parameter {
	return []parameter{
		textParam("vhost", "those in a vhost"), textParam("name", "those about what is named so; * and ? are wildcards"),
		textParam("user", "audit records of a user; * and ? are wildcards"), textParam("operation", "audit records of an operation; * and ? are wildcards"),
	}
}

// auditQuery are the parameters of a list of audit records.
func auditQuery() []parameter {
	return append(recordQuery(), countParam("limit", "how many records to show at most"))
}

// eventQuery are the parameters of the stream of events.
func eventQuery() []parameter {
	return append(recordQuery(), textParam("kinds", "kinds of events, with commas between"), flagParam("history", "begins with the events that nodes still have"),
		textParam("cursor", "continues behind the event with this id, unless the header Last-Event-ID does"))
}

// choiceOfEvents reads which events the query chooses. Last-Event-ID is what a browser sends when
// it connects again, so it counts more than a cursor in its first address.
func (c *call) choiceOfEvents() watch.Choice {
	w := watch.Choice{
		VHost: c.text("vhost"), Name: c.text("name"), User: c.text("user"), Operation: c.text("operation"),
		Cursor: cmp.Or(c.Header.Get("Last-Event-ID"), c.text("cursor")), History: c.flag("history"),
	}
	if kinds := c.text("kinds"); kinds != "" {
		w.Kinds = strings.Split(kinds, ",")
	}
	return w
}

// ofEvent shows an event; it leaves out what does not apply.
func ofEvent(e *watch.Event) object {
	out := object{"kind": string(e.Kind), "at_ms": e.AtMs, "node": string(e.Node)}
	for name, v := range map[string]string{"vhost": e.VHost, "name": e.Name, "cause": e.Cause, "detail": e.Detail} {
		if v != "" {
			out[name] = v
		}
	}
	if e.Count > 0 {
		out["count"] = e.Count
	}
	a := e.Audit
	if a == nil {
		return out
	}
	changes := make([]object, len(a.Changes))
	for i, x := range a.Changes {
		changes[i] = object{"field": x.Field, "before": x.Before, "after": x.After}
	}
	out["audit"] = object{
		"user": a.User, "mechanism": a.Mechanism, "protocol": a.Protocol, "address": a.Address, "client": a.Client,
		"operation": a.Operation, "object": a.Object, "outcome": a.Outcome, "changes": changes,
	}
	return out
}

// watchEvents sends events as they happen. Its first event has none of them and only says where the
// stream begins.
func watchEvents(c *call) (reply, error) {
	return c.stream(func(ctx context.Context, s *stream) error {
		return c.api.Broker.Events.Watch(ctx, c.choiceOfEvents(), func(events []watch.Event, cursor string) error {
			if len(events) == 0 {
				return s.send(cursor, eventBegin, object{})
			}
			for i := range events {
				id := ""
				if i == len(events)-1 { // a client that is cut off before gets all of them again
					id = cursor
				}
				if err := s.send(id, "", ofEvent(&events[i])); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// tailAudit names the nodes that did not answer: their records are missing.
func tailAudit(c *call) (reply, error) {
	limit, err := c.count("limit", watch.MaxAuditTail)
	if err != nil {
		return reply{}, err
	}
	w := c.choiceOfEvents()
	tail, err := c.api.Broker.Events.Tail(c.Context(), watch.Choice{VHost: w.VHost, Name: w.Name, User: w.User, Operation: w.Operation}, int(limit))
	if err != nil {
		return reply{}, err
	}
	records := make([]object, len(tail.Events))
	for i := range tail.Events {
		records[i] = ofEvent(&tail.Events[i])
	}
	return reply{silent: tail.Silent, body: object{"records": records, "cursor": tail.Cursor, "lost": tail.Lost}}, nil
}
