package broker

import (
	"context"

	"github.com/quorate/quorate/catalog"
)

// permitBinding asks for the rights of bind and unbind (VH-6, VH-8).
func (b *Broker) permitBinding(ctx context.Context, x *Binding) error {
	destination := queueOf(x.VHost, x.Destination)
	if x.ToExchange {
		destination.kind = "exchange"
	}
	if err := b.Permissions.permit(ctx, destination, write); err != nil {
		return err
	}
	if x.Source == "" || x.ToExchange && x.Destination == "" {
		return defaultExchangeRefused(x.VHost)
	}
	source := exchangeOf(x.VHost, x.Source)
	if err := b.Permissions.permit(ctx, source, read); err != nil {
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
	if g := b.Permissions.topicPermission(v, who, x.VHost, x.Source); g != nil && !b.Permissions.matches(g, read, x.RoutingKey) {
		return source.refusedKey(who.User(), read, x.RoutingKey)
	}
	return nil
}
