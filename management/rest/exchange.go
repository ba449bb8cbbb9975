package rest

import (
	"errors"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/management/stats"
	"github.com/quorate/quorate/message"
)

// exchangeRoutes are about exchanges.
func exchangeRoutes() []route {
	return []route{
		{method: "GET", path: "/api/exchanges", tag: management, serve: listExchanges, query: listQuery(withoutFigures()), says: "the exchanges of all vhosts that the caller may see"},
		{method: "GET", path: "/api/exchanges/{vhost}", tag: management, serve: listExchanges, query: listQuery(withoutFigures()), says: "the exchanges of a vhost"},
		{method: "GET", path: "/api/exchanges/{vhost}/{name}", tag: management, serve: getExchange, query: oneQuery(withoutFigures()), says: "one exchange"},
		{method: "PUT", path: "/api/exchanges/{vhost}/{name}", tag: management, act: changesExchange(audit.OpExchangeDeclare), serve: putExchange, says: "declares an exchange"},
		{method: "DELETE", path: "/api/exchanges/{vhost}/{name}", tag: management, act: changesExchange(audit.OpExchangeDelete), serve: deleteExchange, query: []parameter{flagParam("if-unused", "refuses if there are bindings from it")}, says: "deletes an exchange; with if-unused only one that is no source of a binding"},
		{method: "GET", path: "/api/exchanges/{vhost}/{name}/bindings/source", tag: management, serve: listBindingsFrom, query: listQuery(), says: "the bindings from an exchange"},
		{method: "GET", path: "/api/exchanges/{vhost}/{name}/bindings/destination", tag: management, serve: listBindingsToExchange, query: listQuery(), says: "the bindings to an exchange"},
	}
}

// defaultExchange is the name that paths have for the default exchange, whose name is empty.
const defaultExchange = "amq.default"

// exchangeOf returns the exchange that a path names.
func exchangeOf(name string) string {
	if name == defaultExchange {
		return ""
	}
	return name
}

// exchange is the exchange that the path names.
func (c *call) exchange() string { return exchangeOf(c.name()) }

// changesExchange describes a change of the path's exchange.
func changesExchange(op audit.Operation) func(c *call) audit.Act {
	return func(c *call) audit.Act {
		return audit.Act{Operation: op, VHost: c.vhost(), Kind: "exchange", Name: c.exchange()}
	}
}

// ofExchange gives an exchange the names that RabbitMQ's HTTP API has.
func ofExchange(x *broker.Exchange) object {
	return object{
		"name": x.Name, "vhost": x.VHost, "type": x.Type, "durable": x.Durable, "auto_delete": x.AutoDelete,
		"internal": x.Internal, "arguments": shown(x.Arguments),
	}
}

// withCounts adds what was published to an exchange. As in RabbitMQ, one that nothing was published to has no message_stats.
func (o object) withCounts(all *stats.Exchanges, x *broker.Exchange) object {
	if c := all.Of[stats.ExchangeName{VHost: x.VHost, Name: x.Name}]; c != nil {
		o["message_stats"] = object{
			"publish_in": c.In, "publish_in_details": object{"rate": c.InRate}, "publish_out": c.Out, "publish_out_details": object{"rate": c.OutRate},
		}
	}
	return o
}

// shown returns a table that is shown as {}, not null, if it is empty.
func shown(t message.Table) message.Table {
	if t == nil {
		return message.Table{}
	}
	return t
}

// listExchanges shows the default exchange with an empty name.
func listExchanges(c *call) (reply, error) {
	var all []broker.Exchange
	err := c.eachVHost(func(vhost string) error {
		more, err := c.api.Broker.ListExchanges(c.Context(), vhost)
		all = append(all, more...)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	build, silent := ofExchange, []string(nil)
	if c.figures() {
		newest, err := c.api.Stats.Exchanges(c.Context())
		if err != nil {
			return reply{}, err
		}
		build = func(x *broker.Exchange) object { return ofExchange(x).withCounts(newest, x) }
		silent = newest.Silent
	}
	return c.list(of(all, func(x *broker.Exchange) string { return x.Name }, build), silent)
}

// getExchange takes amq.default for the default exchange.
func getExchange(c *call) (reply, error) {
	x, err := c.api.Broker.GetExchange(c.Context(), c.vhost(), c.exchange())
	if err != nil {
		return reply{}, err
	}
	if !c.figures() {
		return reply{body: ofExchange(&x)}, nil
	}
	newest, err := c.api.Stats.Exchanges(c.Context())
	if err != nil {
		return reply{}, err
	}
	return reply{body: ofExchange(&x).withCounts(newest, &x), silent: newest.Silent}, nil
}

// putExchange declares a durable direct exchange unless the body says otherwise.
func putExchange(c *call) (reply, error) {
	body, err := c.object()
	if err != nil {
		return reply{}, err
	}
	x := broker.Exchange{VHost: c.vhost(), Name: c.exchange()}
	var errs [5]error
	x.Type, errs[0] = body.text("type", "direct")
	x.Durable, errs[1] = body.flag("durable", true)
	x.AutoDelete, errs[2] = body.flag("auto_delete", false)
	x.Internal, errs[3] = body.flag("internal", false)
	x.Arguments, errs[4] = body.table("arguments")
	if err := errors.Join(errs[:]...); err != nil {
		return reply{}, err
	}
	d, err := c.api.Broker.DeclareExchange(c.Context(), x, false)
	out := created(d.Created)
	out.warnings = d.Warnings
	return out, err
}

// deleteExchange answers 404 for an exchange that is not there, as RabbitMQ does; the broker would not mind.
func deleteExchange(c *call) (reply, error) {
	b := c.api.Broker
	if _, err := b.GetExchange(c.Context(), c.vhost(), c.exchange()); err != nil {
		return reply{}, err
	}
	return reply{}, b.DeleteExchange(c.Context(), c.vhost(), c.exchange(), c.flag("if-unused"))
}
