package broker

import (
	"context"

	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
)

// permitBinding asks for the rights of bind and unbind (VH-6, VH-8).
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
	if !ok || rec.Type != catalog.ExchangeTopic {
		return nil
	}
	if g := b.Permissions.TopicPermission(v, who, x.VHost, x.Source); g != nil && !g.Matches(permission.Read, x.RoutingKey) {
		return source.RefusedKey(who.User(), permission.Read, x.RoutingKey)
	}
	return nil
}
