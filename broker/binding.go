package broker

import (
	"context"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// Binding routes messages from an exchange to a queue or to another exchange.
type Binding struct {
	VHost, Source string
	ToExchange    bool
	Destination   string
	RoutingKey    string
	Arguments     message.Table
}

// kind returns the kind of the destination, as the catalog names it.
func (x *Binding) kind() catalog.DestinationKind {
	if x.ToExchange {
		return catalog.ToExchange
	}
	return catalog.ToQueue
}

// about returns an error that only names the binding; callers add what is wrong.
func (x *Binding) about() failure.Error {
	return failure.Error{VHost: x.VHost, Kind: "binding", Name: names.Binding(x.Source, x.Destination)}
}

// Bind adds a binding; it succeeds if an equal one exists (EX-13). The warnings name arguments that
// are accepted but have no effect (C-9).
func (b *Broker) Bind(ctx context.Context, x Binding) (warnings []string, err error) {
	if err := names.CheckKey(x.RoutingKey, x.about()); err != nil {
		return nil, err
	}
	err = b.proposeBinding(ctx, &x, &catalog.Bind{
		VHost: x.VHost, Source: x.Source, DestinationKind: x.kind(),
		Destination: x.Destination, Key: x.RoutingKey, Arguments: x.Arguments,
	}, func(v *catalog.View, about failure.Error) error {
		warnings, err = b.unknownOfBinding(ctx, v, &x, about)
		return err
	})
	return warnings, err
}

// unknownOfBinding returns warnings about unknown arguments of a binding. Only an exchange
// that routes by headers gives arguments of its bindings a meaning, so only there they can be unknown (C-9).
func (b *Broker) unknownOfBinding(ctx context.Context, v *catalog.View, x *Binding, about failure.Error) ([]string, error) {
	source, ok := v.Exchange(x.VHost, x.Source)
	if !ok || !source.RoutesByHeaders() {
		return nil, nil
	}
	found := policy.UnknownOfBinding(x.Arguments)
	isNew := len(found) > 0 && refusesUnknown(v, x.VHost)
	if isNew {
		for old := range v.BindingsBetween(x.VHost, x.Source, x.kind(), x.Destination, x.RoutingKey) {
			isNew = isNew && !old.Arguments.EqualClass(x.Arguments)
		}
	}
	return b.unknown.of(ctx, v, about, x.Arguments, found, isNew)
}

// Unbind removes a binding; it succeeds if the binding does not exist (EX-13).
func (b *Broker) Unbind(ctx context.Context, x Binding) error {
	return b.proposeBinding(ctx, &x, &catalog.Unbind{
		VHost: x.VHost, Source: x.Source, DestinationKind: x.kind(),
		Destination: x.Destination, Key: x.RoutingKey, Arguments: x.Arguments,
	}, func(*catalog.View, failure.Error) error { return nil })
}

// proposeBinding proposes a command about a binding if the caller may change the binding and check
// returns no error.
func (b *Broker) proposeBinding(ctx context.Context, x *Binding, cmd catalog.Command, check func(*catalog.View, failure.Error) error) error {
	c := b.cluster
	if err := b.permitBinding(ctx, x); err != nil {
		return err
	}
	if rec, ok := c.View().Queue(x.VHost, x.Destination); ok && !x.ToExchange {
		if err := b.Connections.PermitOwner(ctx, rec); err != nil {
			return err
		}
	}
	about := x.about()
	if err := check(c.View(), about); err != nil {
		return err
	}
	_, err := b.commands.Commit(ctx, cmd)
	return failure.Translate(err, about)
}

// ListBindings returns the bindings that the caller may see (VH-12), without the implicit ones of
// the default exchange (EX-3). An empty vhost stands for all vhosts.
func (b *Broker) ListBindings(ctx context.Context, vhost string) ([]Binding, error) {
	seen, v, err := b.Queues.Listable(ctx, vhost)
	if err != nil {
		return nil, err
	}
	var out []Binding
	for x := range v.Bindings() {
		if seen.SeesBinding(x) {
			out = append(out, Binding{
				VHost: x.VHost, Source: x.Source, ToExchange: x.DestinationKind == catalog.ToExchange,
				Destination: x.Destination, RoutingKey: x.Key, Arguments: x.Arguments,
			})
		}
	}
	return out, nil
}

// ImplicitBindings returns the bindings of the default exchange to the queues that the caller may see: to each queue
// with its name as the key (EX-3). An empty vhost stands for all vhosts.
func (b *Broker) ImplicitBindings(ctx context.Context, vhost string) ([]Binding, error) {
	seen, v, err := b.Queues.Listable(ctx, vhost)
	if err != nil {
		return nil, err
	}
	var out []Binding
	for q := range v.Queues() {
		if seen.SeesBinding(&catalog.Binding{VHost: q.VHost, DestinationKind: catalog.ToQueue, Destination: q.Name}) {
			out = append(out, Binding{VHost: q.VHost, Destination: q.Name, RoutingKey: q.Name})
		}
	}
	return out, nil
}

// permitBinding checks that the caller has the permissions for bind and unbind (VH-6, VH-8).
func (b *Broker) permitBinding(ctx context.Context, x *Binding) error {
	destination := permission.Queue(x.VHost, x.Destination)
	if x.ToExchange {
		destination.Kind = "exchange"
	}
	if err := b.Permissions.Permit(ctx, destination, permission.Write); err != nil {
		return err
	}
	if x.Source == "" || x.ToExchange && x.Destination == "" {
		return defaultExchangeRefused(x.VHost)
	}
	source := permission.Exchange(x.VHost, x.Source)
	if err := b.Permissions.Permit(ctx, source, permission.Read); err != nil {
		return err
	}
	who, err := b.Logins.Who(ctx)
	if err != nil || who == nil {
		return err
	}
	v := b.view()
	rec, ok := v.Exchange(x.VHost, x.Source)
	if !ok || !rec.HasTopicKeys() {
		return nil
	}
	if g := b.Permissions.TopicPermission(v, who, x.VHost, x.Source); g != nil && !g.Matches(permission.Read, x.RoutingKey) {
		return source.RefusedKey(who.User(), permission.Read, x.RoutingKey)
	}
	return nil
}
