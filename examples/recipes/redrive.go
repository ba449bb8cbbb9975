package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/client"
)

// Redrive brings dead letters back to the queue that they died in, once the cause is mended.
func Redrive(ctx context.Context, c *client.Client, say Say) error {
	const n = 100
	pay := client.Queue{Name: "pay", Arguments: client.Table{
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": "pay.dead",
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	}}
	if err := declare(ctx, c, client.Queue{Name: "pay.dead"}, pay); err != nil {
		return err
	}
	if err := publish(ctx, c, numbered("pay", n)...); err != nil {
		return err
	}
	stop, err := work(ctx, c, "pay", (*client.Delivery).Discard)
	if err != nil {
		return err
	}
	err = eventually(ctx, "all are in pay.dead", func() (bool, error) {
		q, err := c.GetQueue(ctx, client.QueueRef{Name: "pay.dead"})
		if err != nil || q.Figures().MessagesReady < n {
			return false, err
		}
		return empty(ctx, c, "pay")
	})
	if err := errors.Join(err, stop()); err != nil {
		return err
	}

	started, err := c.RedriveMessages(ctx, client.RedriveMessagesRequest{
		Job: client.MessageJob{Queue: "pay.dead", Filter: client.Filter{DeathQueue: "pay", DeathReason: "rejected"}},
	})
	if err != nil {
		return err
	}
	ended, err := c.WatchOperation(ctx, started.Operation.ID, func(client.Operation) {})
	if err != nil {
		return err
	}
	if ended.State != client.OperationDone {
		return fmt.Errorf("the redrive ended as %s: %s", ended.State, ended.Error)
	}

	err = collect(ctx, c, "pay", n, func(_ int, d *client.Delivery) error {
		if len(d.Deaths) != 1 || d.RoutingKey != "pay" {
			return fmt.Errorf("message %s came back with key %q and deaths %+v", d.Body, d.RoutingKey, d.Deaths)
		}
		return nil
	})
	if err != nil {
		return err
	}
	say("%d dead letters are back in pay, each once, and remember their death", n)
	return emptied(ctx, c, "pay.dead")
}
