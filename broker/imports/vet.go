package imports

import (
	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/definitions"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// vet makes those checks of a new object that the catalog does not make.
func vet(o *definitions.Object) error {
	switch c := o.Command.(type) {
	case *catalog.PutVHost:
		return names.CheckPlain(c.Name, "", administration.AboutVHost(c.Name))
	case *catalog.PutUser:
		if err := names.CheckPlain(c.Name, ":", administration.AboutUser(c.Name)); err != nil {
			return err
		}
		u := administration.PutUser{Name: c.Name, Password: o.Password, Hash: c.PasswordHash, Algorithm: c.Algorithm}
		return u.Check(administration.AboutUser(c.Name))
	case *catalog.SetPermission:
		return administration.CheckPatterns(administration.AboutPermission(c.VHost, c.User),
			administration.NamedPattern{Arg: "configure", Text: c.Configure}, administration.NamedPattern{Arg: "write", Text: c.Write}, administration.NamedPattern{Arg: "read", Text: c.Read})
	case *catalog.SetTopicPermission:
		return administration.CheckPatterns(administration.AboutTopicPermission(c.VHost, c.User), administration.NamedPattern{Arg: "write", Text: c.Write}, administration.NamedPattern{Arg: "read", Text: c.Read})
	case *catalog.PutPolicy:
		return administration.CheckPolicy(&c.Policy, failure.Error{VHost: c.VHost, Kind: "policy", Name: c.Name})
	case *catalog.DeclareExchange:
		return names.Check(c.Name, failure.Error{VHost: c.VHost, Kind: "exchange", Name: c.Name})
	case *catalog.DeclareQueue:
		_, err := resolveImported(c)
		return err
	case *catalog.Bind:
		return names.CheckKey(c.Key, failure.Error{VHost: c.VHost, Kind: "binding", Name: names.Binding(c.Source, c.Destination)})
	case *catalog.PutParameter:
		if c.VHost == "" && c.Component != "" { // those are the broker's own
			return &failure.Error{Class: failure.AccessRefused, Kind: "parameter", Name: c.Name, Reason: "is the broker's own"}
		}
	}
	return nil
}

// resolveImported checks a queue of the document. Its type is already known.
func resolveImported(c *catalog.DeclareQueue) (argument.Settings, error) {
	about := failure.Error{VHost: c.VHost, Kind: "queue", Name: c.Name}
	if err := names.Check(c.Name, about); err != nil {
		return argument.Settings{}, err
	}
	args := c.Arguments
	if _, named := args.Get(argument.QueueType); !named {
		args = append(message.Table{{Name: argument.QueueType, Value: message.String(string(c.Type))}}, args...)
	}
	e, err := policy.ResolveDeclaration(policy.Declaration{
		Name: c.Name, Durable: c.Durable, Exclusive: c.Exclusive, AutoDelete: c.AutoDelete, Arguments: args,
	}, c.Type)
	if err != nil {
		return e, failure.FromArgument(err, about)
	}
	return e, nil
}
