package broker

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// Exchange describes an exchange.
type Exchange struct {
	VHost, Name string
	Type        string // such as direct; of a declare also x-delayed-message (DLY-2)
	Durable     bool
	AutoDelete  bool
	Internal    bool
	Arguments   message.Table
}

// DeclareExchange makes an exchange unless an equivalent one exists (EX-5); passive only
// asks whether one of the name does. It tells whether the exchange is new.
func (b *Broker) DeclareExchange(ctx context.Context, x Exchange, passive bool) (created bool, err error) {
	c, err := b.attachedCluster()
	if err != nil {
		return false, err
	}
	if x.Name = catalog.StripName(x.Name); x.Name == "" {
		return false, defaultExchangeRefused(x.VHost)
	}
	about := Error{VHost: x.VHost, Kind: "exchange", Name: x.Name}
	_, exists := c.View().Exchange(x.VHost, x.Name)
	if passive {
		if err := b.permitAny(ctx, exchangeOf(x.VHost, x.Name)); err != nil {
			return false, err
		}
		if !exists {
			_, err := c.View().Route(x.VHost, x.Name, &catalog.Publication{}, nil)
			return false, translate(err, about)
		}
		return false, nil
	}
	if err := b.permit(ctx, exchangeOf(x.VHost, x.Name), configure); err != nil {
		return false, err
	}
	if !exists {
		if err := checkName(x.Name, about); err != nil {
			return false, err
		}
		alternate, sends := (&catalog.Exchange{Arguments: x.Arguments}).AlternateExchange()
		if err := b.permitNew(ctx, exchangeOf(x.VHost, x.Name), alternate, sends); err != nil {
			return false, err
		}
	}
	asked := catalog.DeclareExchange{
		VHost: x.VHost, Name: x.Name, Type: catalog.ExchangeType(x.Type), Durable: x.Durable,
		AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: x.Arguments,
	}
	cmd, err := asked.Resolved()
	if err != nil {
		return false, translate(err, about)
	}
	reply, err := b.commit(ctx, c, &cmd)
	if err != nil {
		err = aboutDeclaration(translate(err, about), x.Arguments, argumentsOf(c.View(), exchangeOf(x.VHost, x.Name)))
		if _, exists = c.View().Exchange(x.VHost, x.Name); exists {
			err = asState(err)
		}
	}
	return reply.Created, err
}

// DeleteExchange removes an exchange and its bindings; a missing one is fine. With
// ifUnused it must not be the source of a binding.
func (b *Broker) DeleteExchange(ctx context.Context, vhost, name string, ifUnused bool) error {
	c, err := b.attachedCluster()
	if err != nil {
		return err
	}
	name = catalog.StripName(name)
	about := Error{VHost: vhost, Kind: "exchange", Name: name}
	switch {
	case name == "":
		return defaultExchangeRefused(vhost)
	case reserved(name):
		about.Class, about.Problem = AccessRefused, ProblemSystemExchange
		about.Reason = "is pre-declared, or has a name that is kept for such, and cannot be deleted"
		return &about
	}
	if err := b.permit(ctx, exchangeOf(vhost, name), configure); err != nil {
		return err
	}
	_, err = b.commit(ctx, c, &catalog.DeleteExchange{VHost: vhost, Name: name, IfUnused: ifUnused})
	err = asState(translate(err, about))
	if e, ok := errors.AsType[*Error](err); ok && e.Arg == "if_unused" {
		e.Problem = ProblemInUse
	}
	return err
}

// ListExchanges returns the exchanges of a vhost, of all if it is empty, sorted by vhost
// and name: those that the caller sees (VH-12).
func (b *Broker) ListExchanges(ctx context.Context, vhost string) ([]Exchange, error) {
	seen, err := b.sight(ctx, vhost)
	if err != nil {
		return nil, err
	}
	v, err := b.viewOf(vhost)
	if err != nil {
		return nil, err
	}
	var out []Exchange
	for x := range v.Exchanges() {
		if seen.sees(exchangeOf(x.VHost, x.Name)) {
			out = append(out, Exchange{
				VHost: x.VHost, Name: x.Name, Type: string(x.Type), Durable: x.Durable,
				AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: x.Arguments,
			})
		}
	}
	return out, nil
}

// viewOf returns the view, and checks that it has the vhost unless that is empty.
func (b *Broker) viewOf(vhost string) (*catalog.View, error) {
	v := b.view()
	if v == nil {
		return nil, errStarting()
	}
	if _, ok := v.Exchange(vhost, ""); vhost != "" && !ok {
		return nil, &Error{Class: NotFound, VHost: vhost, Kind: "vhost", Name: vhost, Reason: "does not exist"}
	}
	return v, nil
}

// Binding routes from an exchange to a queue, or to an exchange.
type Binding struct {
	VHost, Source string
	ToExchange    bool
	Destination   string
	RoutingKey    string
	Arguments     message.Table
}

// BindingName names a binding in errors and in the audit.
func BindingName(source, destination string) string { return source + " → " + destination }

func (x *Binding) kind() catalog.DestinationKind {
	if x.ToExchange {
		return catalog.ToExchange
	}
	return catalog.ToQueue
}

func (x *Binding) check() error {
	about := Error{
		Class: PreconditionFailed, VHost: x.VHost, Kind: "binding", Name: BindingName(x.Source, x.Destination),
		Arg: "routing_key",
	}
	switch {
	case len(x.RoutingKey) > catalog.MaxKeyBytes:
		about.Value = strconv.Itoa(len(x.RoutingKey)) + " bytes"
		about.Reason = "the limit is " + strconv.Itoa(catalog.MaxKeyBytes) + " bytes"
	case strings.ContainsRune(x.RoutingKey, 0):
		about.Reason = "contains a NUL byte"
	default:
		return nil
	}
	return &about
}

// Bind adds a binding; an equal one is fine (EX-13).
func (b *Broker) Bind(ctx context.Context, x Binding) error {
	if err := x.check(); err != nil {
		return err
	}
	return b.proposeBinding(ctx, &x, &catalog.Bind{
		VHost: x.VHost, Source: x.Source, DestinationKind: x.kind(),
		Destination: x.Destination, Key: x.RoutingKey, Arguments: x.Arguments,
	})
}

// Unbind removes a binding; a missing one is fine (EX-13).
func (b *Broker) Unbind(ctx context.Context, x Binding) error {
	return b.proposeBinding(ctx, &x, &catalog.Unbind{
		VHost: x.VHost, Source: x.Source, DestinationKind: x.kind(),
		Destination: x.Destination, Key: x.RoutingKey, Arguments: x.Arguments,
	})
}

func (b *Broker) proposeBinding(ctx context.Context, x *Binding, cmd catalog.Command) error {
	c, err := b.attachedCluster()
	if err != nil {
		return err
	}
	if err := b.permitBinding(ctx, x); err != nil {
		return err
	}
	if rec, ok := c.View().Queue(x.VHost, x.Destination); ok && !x.ToExchange {
		if err := b.permitOwner(ctx, rec); err != nil {
			return err
		}
	}
	_, err = b.commit(ctx, c, cmd)
	return translate(err, Error{VHost: x.VHost, Kind: "binding", Name: BindingName(x.Source, x.Destination)})
}

// ListBindings returns the bindings of a vhost, of all if it is empty, without the
// implicit ones of the default exchange (EX-3): those that the caller sees (VH-12).
func (b *Broker) ListBindings(ctx context.Context, vhost string) ([]Binding, error) {
	seen, err := b.sight(ctx, vhost)
	if err != nil {
		return nil, err
	}
	v, err := b.viewOf(vhost)
	if err != nil {
		return nil, err
	}
	var out []Binding
	for x := range v.Bindings() {
		if seen.seesBinding(x) {
			out = append(out, Binding{
				VHost: x.VHost, Source: x.Source, ToExchange: x.DestinationKind == catalog.ToExchange,
				Destination: x.Destination, RoutingKey: x.Key, Arguments: x.Arguments,
			})
		}
	}
	return out, nil
}
