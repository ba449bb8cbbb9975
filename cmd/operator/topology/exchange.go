package topology

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cmd/operator/api/v1alpha1"
	"github.com/quorate/quorate/cmd/operator/inventory"
	"github.com/quorate/quorate/cmd/operator/spec"
	"github.com/quorate/quorate/cmd/operator/table"
)

func readExchange(o *v1alpha1.QuorateExchange) (subject, field.ErrorList) {
	x, faults := spec.ReadExchange(o)
	return exchange{x}, faults
}

// removalOfExchange takes a missing value for the default, as that of queues does.
func removalOfExchange(o *v1alpha1.QuorateExchange) removal {
	switch o.Spec.Deletion {
	case v1alpha1.ExchangeDeletionAlways:
		return always
	case v1alpha1.ExchangeDeletionRetain:
		return keep
	case v1alpha1.ExchangeDeletionWhenUnused:
	}
	return ifUnused
}

// remedyOfExchange is for what the broker does not change.
const remedyOfExchange = "The broker does not change an exchange that exists. Put back the specification; or set the alternate exchange by a QuoratePolicy; " +
	"or delete the exchange (quoratectl exchanges delete): then it is made as specified, and its bindings with it if they are objects"

// exchange is the subject of a QuorateExchange.
type exchange struct{ spec.Exchange }

func (x exchange) name() inventory.Name { return inventory.Name{VHost: x.VHost, Name: x.Name} }
func (x exchange) identity() string     { return x.VHost + "\x00" + x.Name }
func (x exchange) words() string        { return fmt.Sprintf("exchange %q in vhost %q", x.Name, x.VHost) }

func (x exchange) compare(ctx context.Context, s *session) (bool, []table.Difference, error) {
	found, ok, err := s.inventory.Exchange(ctx, x.name(), s.maxAge.duration())
	if err != nil || !ok {
		return false, nil, err
	}
	return true, x.differences(found), nil
}

// differences compares what the broker compares when an exchange is declared again (EX-5).
func (x exchange) differences(found inventory.Exchange) []table.Difference {
	out := table.CompareText(nil, "type", x.Type, found.Type)
	out = table.CompareBool(out, "durable", true, found.Durable)
	out = table.CompareBool(out, "autoDelete", x.AutoDelete, found.AutoDelete)
	out = table.CompareBool(out, "internal", x.Internal, found.Internal)
	known := catalog.ExchangeArguments()
	return append(out, table.Compare("arguments", x.Arguments, found.Arguments, func(name string) bool { return slices.Contains(known, name) })...)
}

func (x exchange) apply(ctx context.Context, s *session) (created bool, err error) {
	err = s.call(ctx, func(ctx context.Context, c *client.Client) error {
		created, err = c.DeclareExchange(ctx, client.Exchange{
			VHost: x.VHost, Name: x.Name, Type: x.Type, AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: table.ToClient(x.Arguments),
		})
		return err
	})
	if err == nil {
		s.inventory.PutExchange(ctx, x.name(), inventory.Exchange{
			Type: x.Type, Durable: true, AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: x.Arguments,
		})
	}
	return created, err
}

// remove leaves the decision to the broker (EX-6).
func (x exchange) remove(ctx context.Context, s *session, how removal) error {
	err := s.call(ctx, func(ctx context.Context, c *client.Client) error {
		return gone(c.DeleteExchange(ctx, client.DeleteExchangeRequest{VHost: x.VHost, Name: x.Name, IfUnused: how == ifUnused}))
	})
	if err == nil {
		s.inventory.DropExchange(ctx, x.name())
	}
	return err
}
