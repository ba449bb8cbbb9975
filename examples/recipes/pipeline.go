package recipes

import (
	"context"
	"errors"

	"github.com/quorate/quorate/client"
)

// Pipeline turns each order into an invoice, exactly once.
func Pipeline(ctx context.Context, c *client.Client, say Say) error {
	const n = 100
	if err := declare(ctx, c, client.Queue{Name: "invoices"}, client.Queue{Name: "orders.in"}); err != nil {
		return err
	}
	if err := publish(ctx, c, numbered("orders.in", n)...); err != nil {
		return err
	}
	stop, err := work(ctx, c, "orders.in", func(order *client.Delivery) error {
		err := order.SettleAndPublish(ctx, client.Message{RoutingKey: "invoices", Body: order.Body})
		if errors.Is(err, client.ErrStale) {
			return nil // an earlier try did it, or the order comes again
		}
		return err
	})
	if err != nil {
		return err
	}
	err = collect(ctx, c, "invoices", n, func(int, *client.Delivery) error { return nil })
	if err == nil {
		err = emptied(ctx, c, "orders.in")
	}
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	say("%d orders became one invoice each", n)
	return nil
}
