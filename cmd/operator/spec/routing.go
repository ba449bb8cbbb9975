package spec

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/scope"
	"github.com/quorate/quorate/cmd/operator/table"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// Queue is what a QuorateQueue asks for.
type Queue struct {
	VHost, Name string
	AutoDelete  bool
	// Arguments include the type, if the specification names one.
	Arguments message.Table
}

// ReadQueue reads and checks a queue. Without a type it may become either, by the default of its vhost: then only
// what no type permits is a fault.
func ReadQueue(q *v1alpha1.QuorateQueue) (Queue, field.ErrorList) {
	s := &q.Spec
	out := Queue{VHost: vhostOr(s.VHost), Name: cmp.Or(s.Name, q.Name), AutoDelete: s.AutoDelete}
	args, faults := readTable("arguments", s.Arguments)
	if len(faults) > 0 {
		return out, faults
	}
	if _, twice := args.Get(argument.QueueType); twice {
		return out, field.ErrorList{field.Forbidden(at("arguments").Key(argument.QueueType), "give the type as spec.type")}
	}
	out.Arguments = args
	if s.Type != "" {
		out.Arguments = append(message.Table{{Name: argument.QueueType, Value: message.String(s.Type)}}, args...)
	}
	faults = faultsOf(names.Check(out.Name, failure.Error{VHost: out.VHost, Kind: "queue", Name: out.Name}), "", fields{"name": "name"})
	return out, append(faults, out.check(s.Type)...)
}

// Demand is what the queue needs to be allowed.
func (q Queue) Demand() scope.Demand { return scope.Demand{VHost: q.VHost} }

// check resolves the declaration as the broker does.
func (q *Queue) check(kind string) field.ErrorList {
	resolve := func(vhostDefault catalog.QueueType) field.ErrorList {
		_, err := policy.ResolveDeclaration(policy.Declaration{
			Name: q.Name, Durable: true, AutoDelete: q.AutoDelete, Arguments: q.Arguments,
		}, vhostDefault)
		return faultsOf(err, "arguments", fields{"auto_delete": "autoDelete", argument.QueueType: "type"})
	}
	faults := resolve(catalog.QueueQuorum)
	if kind != "" {
		return faults
	}
	var both field.ErrorList
	classic := resolve(catalog.QueueClassic)
	for _, f := range faults {
		for _, c := range classic {
			if c.Field == f.Field {
				both = append(both, f)
				break
			}
		}
	}
	return both
}

// WarnQueue returns what a queue's specification says without effect.
func WarnQueue(q *v1alpha1.QuorateQueue) []string {
	args, _ := readTable("arguments", q.Spec.Arguments)
	return warnings("arguments", policy.UnknownOfQueue(args))
}

// Exchange is what a QuorateExchange asks for.
type Exchange struct {
	VHost, Name, Type    string
	AutoDelete, Internal bool
	Arguments            message.Table
}

// ReadExchange reads and checks an exchange.
func ReadExchange(x *v1alpha1.QuorateExchange) (Exchange, field.ErrorList) {
	s := &x.Spec
	out := Exchange{
		VHost: vhostOr(s.VHost), Name: cmp.Or(s.Name, x.Name), Type: cmp.Or(s.Type, string(catalog.ExchangeDirect)),
		AutoDelete: s.AutoDelete, Internal: s.Internal,
	}
	args, faults := readTable("arguments", s.Arguments)
	if len(faults) > 0 {
		return out, faults
	}
	out.Arguments = args
	named := fields{"name": "name", "type": "type"}
	faults = faultsOf(names.Check(out.Name, failure.Error{VHost: out.VHost, Kind: "exchange", Name: out.Name}), "", named)
	if len(faults) > 0 {
		return out, faults // the catalog would only repeat them
	}
	declare := out.declare()
	resolved, err := declare.Resolved()
	if err == nil {
		err = tried(newTrial(out.VHost), &resolved)
	}
	return out, faultsOf(err, "arguments", named)
}

// Demand is what the exchange needs to be allowed.
func (x Exchange) Demand() scope.Demand { return scope.Demand{VHost: x.VHost} }

// declare is the command that makes the exchange.
func (x *Exchange) declare() catalog.DeclareExchange {
	return catalog.DeclareExchange{
		VHost: x.VHost, Name: x.Name, Type: catalog.ExchangeType(x.Type), Durable: true,
		AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: x.Arguments,
	}
}

// WarnExchange is WarnQueue for an exchange.
func WarnExchange(x *v1alpha1.QuorateExchange) []string {
	args, _ := readTable("arguments", x.Spec.Arguments)
	return warnings("arguments", policy.UnknownOfExchange(args))
}

// Binding is what a QuorateBinding asks for.
type Binding struct {
	VHost, Source, Destination string
	ToExchange                 bool
	RoutingKey                 string
	Arguments                  message.Table
}

// ReadBinding reads and checks a binding. What depends on the type of its exchange only the broker can check.
func ReadBinding(b *v1alpha1.QuorateBinding) (Binding, field.ErrorList) {
	s := &b.Spec
	out := Binding{
		VHost: vhostOr(s.VHost), Source: s.Source, Destination: s.Destination,
		ToExchange: s.DestinationType == "exchange", RoutingKey: s.RoutingKey,
	}
	args, faults := readTable("arguments", s.Arguments)
	if len(faults) > 0 {
		return out, faults
	}
	out.Arguments = args
	if s.Source == "" {
		faults = append(faults, field.Required(at("source"), "the default exchange routes to every queue by itself and cannot be bound; name another exchange"))
	}
	if s.Destination == "" {
		faults = append(faults, field.Required(at("destination"), "name a queue or an exchange"))
	}
	about := failure.Error{VHost: out.VHost, Kind: "binding", Name: names.Binding(out.Source, out.Destination)}
	return out, append(faults, faultsOf(names.CheckKey(out.RoutingKey, about), "", fields{"routing_key": "routingKey"})...)
}

// Demand is what the binding needs to be allowed.
func (b Binding) Demand() scope.Demand { return scope.Demand{VHost: b.VHost} }

// WithArguments returns the binding with other arguments, which makes it another one.
func (b Binding) WithArguments(json []byte) Binding {
	b.Arguments, _ = table.Parse(json)
	return b
}

// WarnBinding is WarnQueue for a binding.
func WarnBinding(b *v1alpha1.QuorateBinding) []string {
	args, _ := readTable("arguments", b.Spec.Arguments)
	return warnings("arguments", policy.UnknownOfBinding(args))
}
