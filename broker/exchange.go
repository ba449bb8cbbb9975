package broker

import (
	"context"
	"errors"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// Exchange describes an exchange.
type Exchange struct {
	VHost, Name string
	Type        string // such as direct; a declare may also ask for x-delayed-message (DLY-2)
	Durable     bool
	AutoDelete  bool
	Internal    bool
	Arguments   message.Table
}

// ExchangeType is a type of exchange that can be declared.
type ExchangeType struct {
	Name   string
	Routes string // where a message goes, for people
}

// ExchangeTypes returns all types (EX-1).
func ExchangeTypes() []ExchangeType {
	var out []ExchangeType
	for name, routes := range catalog.ExchangeTypes() {
		out = append(out, ExchangeType{string(name), routes})
	}
	return out
}

// DeclaredExchange is the outcome of a declare of an exchange.
type DeclaredExchange struct {
	Created bool
	// Warnings name arguments that are accepted but have no effect (C-9).
	Warnings []string
}

// DeclareExchange creates an exchange unless an equivalent one exists (EX-5). With passive it only asks whether an
// exchange of that name exists.
func (b *Broker) DeclareExchange(ctx context.Context, x Exchange, passive bool) (DeclaredExchange, error) {
	c := b.cluster
	if x.Name = catalog.StripName(x.Name); x.Name == "" {
		return DeclaredExchange{}, defaultExchangeRefused(x.VHost)
	}
	about := failure.Error{VHost: x.VHost, Kind: "exchange", Name: x.Name}
	if passive {
		if err := b.Permissions.PermitAny(ctx, permission.Exchange(x.VHost, x.Name)); err != nil {
			return DeclaredExchange{}, err
		}
		_, err := serving.LookUpExchange(c.View(), x.VHost, x.Name)
		return DeclaredExchange{}, err
	}
	if err := b.Permissions.Permit(ctx, permission.Exchange(x.VHost, x.Name), permission.Configure); err != nil {
		return DeclaredExchange{}, err
	}
	v, err := b.viewToDeclare(ctx, func(v *catalog.View) bool { _, exists := v.Exchange(x.VHost, x.Name); return exists })
	if err != nil {
		return DeclaredExchange{}, err
	}
	_, exists := v.Exchange(x.VHost, x.Name)
	if !exists {
		if err := b.permitNewExchange(ctx, &x, about); err != nil {
			return DeclaredExchange{}, err
		}
	}
	warnings, err := b.unknown.of(ctx, c.View(), about, x.Arguments, policy.UnknownOfExchange(x.Arguments), !exists)
	if err != nil {
		return DeclaredExchange{}, err
	}
	asked := catalog.DeclareExchange{
		VHost: x.VHost, Name: x.Name, Type: catalog.ExchangeType(x.Type), Durable: x.Durable,
		AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: x.Arguments,
	}
	cmd, err := asked.Resolved()
	if err != nil {
		return DeclaredExchange{}, failure.Translate(err, about)
	}
	var reply catalog.Reply
	if exists {
		reply, err = compared(v, &cmd)
	} else {
		reply, err = b.commands.Commit(ctx, &cmd)
	}
	if err != nil {
		err = aboutDeclaration(failure.Translate(err, about), x.Arguments, argumentsOf(c.View(), permission.Exchange(x.VHost, x.Name)))
		if _, exists = c.View().Exchange(x.VHost, x.Name); exists {
			err = failure.AsState(err)
		}
	}
	return DeclaredExchange{Created: reply.Created, Warnings: warnings}, err
}

// permitNewExchange checks the name of an exchange that is to be created, and whether the caller may create it.
func (b *Broker) permitNewExchange(ctx context.Context, x *Exchange, about failure.Error) error {
	if err := names.Check(x.Name, about); err != nil {
		return err
	}
	alternate, sends := (&catalog.Exchange{Arguments: x.Arguments}).AlternateExchange()
	return b.Permissions.PermitNew(ctx, permission.Exchange(x.VHost, x.Name), alternate, sends)
}

// DeleteExchange removes an exchange and its bindings; it succeeds if the exchange does not exist. With ifUnused, it
// refuses an exchange that is the source of a binding.
func (b *Broker) DeleteExchange(ctx context.Context, vhost, name string, ifUnused bool) error {
	name = catalog.StripName(name)
	about := failure.Error{VHost: vhost, Kind: "exchange", Name: name}
	switch {
	case name == "":
		return defaultExchangeRefused(vhost)
	case names.Reserved(name):
		about.Class, about.Problem = failure.AccessRefused, failure.ProblemSystemExchange
		about.Reason = "is pre-declared, or has a name that is kept for such, and cannot be deleted"
		return &about
	}
	if err := b.Permissions.Permit(ctx, permission.Exchange(vhost, name), permission.Configure); err != nil {
		return err
	}
	_, err := b.commands.Commit(ctx, &catalog.DeleteExchange{VHost: vhost, Name: name, IfUnused: ifUnused})
	err = failure.AsState(failure.Translate(err, about))
	if e, ok := errors.AsType[*failure.Error](err); ok && e.Arg == "if_unused" {
		e.Problem = failure.ProblemInUse
	}
	return err
}

// ListExchanges returns the exchanges that the caller may see (VH-12), sorted by vhost and name. An empty vhost stands
// for all vhosts.
func (b *Broker) ListExchanges(ctx context.Context, vhost string) ([]Exchange, error) {
	seen, v, err := b.Queues.Listable(ctx, vhost)
	if err != nil {
		return nil, err
	}
	var out []Exchange
	for x := range v.Exchanges() {
		if seen.Sees(permission.Exchange(x.VHost, x.Name)) {
			out = append(out, describeExchange(x))
		}
	}
	return out, nil
}

// GetExchange returns an exchange that the caller may see (VH-12).
func (b *Broker) GetExchange(ctx context.Context, vhost, name string) (Exchange, error) {
	if err := b.Permissions.PermitSight(ctx, permission.Exchange(vhost, name)); err != nil {
		return Exchange{}, err
	}
	x, err := serving.LookUpExchange(b.view(), vhost, name)
	if err != nil {
		return Exchange{}, err
	}
	return describeExchange(x), nil
}

// describeExchange returns an exchange as the catalog has it.
func describeExchange(x *catalog.Exchange) Exchange {
	return Exchange{
		VHost: x.VHost, Name: x.Name, Type: string(x.Type), Durable: x.Durable,
		AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: x.Arguments,
	}
}
