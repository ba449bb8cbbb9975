package recipes

import (
	"context"
	"errors"
	"fmt"

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
	for {
		order, err := c.Get(ctx, "", "orders.in", false)
		if err != nil {
			return err
		}
		if order == nil {
			break
		}
		if err := invoice(ctx, c, order); err != nil {
			return err
		}
	}
	if err := collect(ctx, c, "invoices", n, func(int, *client.Delivery) error { return nil }); err != nil {
		return err
	}
	say("%d orders became one invoice each", n)
	return emptied(ctx, c, "orders.in")
}

// invoice settles an order and publishes its invoice: both, or neither.
func invoice(ctx context.Context, c *client.Client, order *client.Taken) error {
	err := c.SettleAndPublish(ctx, order.Token, client.Message{RoutingKey: "invoices", Body: order.Body})
	var e *client.Error
	switch {
	case errors.As(err, &e) && e.Class == client.Unavailable:
		return fmt.Errorf("order %s: it is open what happened; it comes again if nothing did: %w", order.Body, err)
	default:
		return err
	}
}
