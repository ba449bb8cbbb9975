package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/message"
)

// bindingRoutes are about bindings.
func bindingRoutes() []route {
	out := []route{
		{method: "GET", path: "/api/bindings", tag: management, serve: listBindings, query: listQuery(), says: "the bindings in all vhosts that the caller may see"},
		{method: "GET", path: "/api/bindings/{vhost}", tag: management, serve: listBindings, query: listQuery(), says: "the bindings in a vhost"},
	}
	for kind, to := range []string{"q", "e"} {
		path, exchange := "/api/bindings/{vhost}/e/{source}/"+to+"/{destination}", kind == 1
		x := func(c *call) broker.Binding { return c.binding(exchange) }
		out = append(out,
			route{method: "GET", path: path, tag: management, serve: withBinding(x, listBindingsBetween), query: listQuery(), says: "the bindings between an exchange and a destination"},
			route{method: "POST", path: path, tag: management, act: changesBinding(audit.OpBindingCreate, x), serve: withBinding(x, bind), says: "binds a destination to an exchange"},
			route{method: "GET", path: path + "/{props}", tag: management, serve: withBinding(x, getBinding), query: oneQuery(), says: "one binding"},
			route{method: "DELETE", path: path + "/{props}", tag: management, act: changesBinding(audit.OpBindingDelete, x), serve: withBinding(x, unbind), says: "removes a binding"},
		)
	}
	return out
}

// binding returns the binding of the path, without key and arguments.
func (c *call) binding(toExchange bool) broker.Binding {
	x := broker.Binding{
		VHost: c.vhost(), Source: exchangeOf(c.PathValue("source")), ToExchange: toExchange, Destination: c.PathValue("destination"),
	}
	if toExchange {
		x.Destination = exchangeOf(x.Destination)
	}
	return x
}

// withBinding serves a route about the binding of the path.
func withBinding(of func(c *call) broker.Binding, serve func(c *call, x broker.Binding) (reply, error)) func(c *call) (reply, error) {
	return func(c *call) (reply, error) { return serve(c, of(c)) }
}

// changesBinding describes a change of the binding of the path.
func changesBinding(op audit.Operation, of func(c *call) broker.Binding) func(c *call) audit.Act {
	return func(c *call) audit.Act {
		x := of(c)
		return audit.Act{Operation: op, VHost: x.VHost, Kind: "binding", Name: names.Binding(x.Source, x.Destination)}
	}
}

// propsHashBytes is how much of the hash of a binding's arguments distinguishes it from others.
const propsHashBytes = 16

// propsOf returns what RabbitMQ calls a binding's properties_key: its routing key and, if there are arguments, a hash
// of them, escaped once and with a tilde between.
func propsOf(x *broker.Binding) string {
	key, hash := strings.ReplaceAll(url.PathEscape(x.RoutingKey), "~", "%7E"), hashOf(x)
	if key == "" || hash != "" {
		key += "~"
	}
	return key + hash
}

// hashOf returns a hash of a binding's arguments; "" if there are none.
func hashOf(x *broker.Binding) string {
	if len(x.Arguments) == 0 {
		return ""
	}
	sum := sha256.Sum256(message.AppendTable(nil, x.Arguments))
	return base64.RawURLEncoding.EncodeToString(sum[:propsHashBytes])
}

// withProps returns a condition for bindings with the properties_key of the path. Some clients make it of the routing
// key, which they escape only once in the path.
func withProps(props string) func(x *broker.Binding) bool {
	key, hash, _ := strings.Cut(props, "~")
	if again, err := url.PathUnescape(key); err == nil {
		key = again
	}
	return func(x *broker.Binding) bool { return x.RoutingKey == key && hashOf(x) == hash }
}

// placeOf returns where a binding is, relative to the path under which it is made. RabbitMQ's clients take what follows the
// only slash for its properties.
func placeOf(x *broker.Binding) string {
	return url.PathEscape(x.Destination) + "/" + url.PathEscape(propsOf(x))
}

// kindOf returns the kind of a binding's destination.
func kindOf(x *broker.Binding) string {
	if x.ToExchange {
		return "exchange"
	}
	return "queue"
}

// ofBinding gives a binding the names that RabbitMQ's HTTP API has.
func ofBinding(x *broker.Binding) object {
	return object{
		"source": x.Source, "vhost": x.VHost, "destination": x.Destination, "destination_type": kindOf(x),
		"routing_key": x.RoutingKey, "arguments": shown(x.Arguments), "properties_key": propsOf(x),
	}
}

// sendBindings answers with bindings.
func (c *call) sendBindings(all []broker.Binding) (reply, error) {
	return c.list(of(all, func(x *broker.Binding) string { return x.Source }, ofBinding), nil)
}

// bindingsWhere returns the bindings that are wanted, in the vhosts of eachVHost. Those of the default exchange come
// first.
func (c *call) bindingsWhere(wanted func(x *broker.Binding) bool) ([]broker.Binding, error) {
	var all []broker.Binding
	b := c.api.Broker
	err := c.eachVHost(func(vhost string) error {
		implicit, err := b.ImplicitBindings(c.Context(), vhost)
		if err != nil {
			return err
		}
		more, err := b.ListBindings(c.Context(), vhost)
		all = append(append(all, implicit...), more...)
		return err
	})
	return slices.DeleteFunc(all, func(x broker.Binding) bool { return !wanted(&x) }), err
}

// listBindingsWhere answers with the bindings that are wanted, unless an earlier check failed.
func (c *call) listBindingsWhere(err error, wanted func(x *broker.Binding) bool) (reply, error) {
	if err != nil {
		return reply{}, err
	}
	all, err := c.bindingsWhere(wanted)
	if err != nil {
		return reply{}, err
	}
	return c.sendBindings(all)
}

func listBindings(c *call) (reply, error) {
	return c.listBindingsWhere(nil, func(*broker.Binding) bool { return true })
}

func listBindingsFrom(c *call) (reply, error) {
	_, err := c.api.Broker.GetExchange(c.Context(), c.vhost(), c.exchange())
	return c.listBindingsWhere(err, func(x *broker.Binding) bool { return x.Source == c.exchange() })
}

func listBindingsToExchange(c *call) (reply, error) {
	_, err := c.api.Broker.GetExchange(c.Context(), c.vhost(), c.exchange())
	return c.listBindingsWhere(err, func(x *broker.Binding) bool { return x.ToExchange && x.Destination == c.exchange() })
}

func listBindingsToQueue(c *call) (reply, error) {
	_, err := c.api.Broker.Queues.Describe(c.Context(), c.vhost(), c.name())
	return c.listBindingsWhere(err, func(x *broker.Binding) bool { return !x.ToExchange && x.Destination == c.name() })
}

// ends checks that both ends of a binding exist.
func (c *call) ends(x *broker.Binding) error {
	b := c.api.Broker
	if _, err := b.GetExchange(c.Context(), x.VHost, x.Source); err != nil {
		return err
	}
	var err error
	if x.ToExchange {
		_, err = b.GetExchange(c.Context(), x.VHost, x.Destination)
	} else {
		_, err = b.Queues.Describe(c.Context(), x.VHost, x.Destination)
	}
	return err
}

// between returns a condition for bindings with the ends of x.
func between(x *broker.Binding) func(y *broker.Binding) bool {
	return func(y *broker.Binding) bool {
		return y.Source == x.Source && y.ToExchange == x.ToExchange && y.Destination == x.Destination
	}
}

func listBindingsBetween(c *call, x broker.Binding) (reply, error) {
	return c.listBindingsWhere(c.ends(&x), between(&x))
}

// bind answers with the place of the binding.
func bind(c *call, x broker.Binding) (reply, error) {
	body, err := c.object()
	if err != nil {
		return reply{}, err
	}
	var errs [2]error
	x.RoutingKey, errs[0] = body.text("routing_key", "")
	x.Arguments, errs[1] = body.table("arguments")
	if err := errors.Join(errs[:]...); err != nil {
		return reply{}, err
	}
	warnings, err := c.api.Broker.Bind(c.Context(), x)
	if err != nil {
		return reply{}, err
	}
	c.w.Header().Set("Location", placeOf(&x))
	return reply{code: http.StatusCreated, warnings: warnings}, nil
}

// findBinding returns the binding that the path identifies.
func (c *call) findBinding(x *broker.Binding) (broker.Binding, error) {
	if err := c.ends(x); err != nil {
		return *x, err
	}
	ends, props := between(x), withProps(c.PathValue("props"))
	all, err := c.bindingsWhere(func(y *broker.Binding) bool { return ends(y) && props(y) })
	if err == nil && len(all) == 0 {
		err = missing("binding", x.VHost, names.Binding(x.Source, x.Destination)+" ("+c.PathValue("props")+")")
	}
	if err != nil {
		return *x, err
	}
	return all[0], nil
}

// getBinding also shows bindings of the default exchange.
func getBinding(c *call, x broker.Binding) (reply, error) {
	found, err := c.findBinding(&x)
	if err != nil {
		return reply{}, err
	}
	return reply{body: ofBinding(&found)}, nil
}

// unbind answers 404 for a binding that is not there, as RabbitMQ does; the broker would not mind (EX-13).
func unbind(c *call, x broker.Binding) (reply, error) {
	found, err := c.findBinding(&x)
	if err != nil {
		return reply{}, err
	}
	return reply{}, c.api.Broker.Unbind(c.Context(), found)
}
