package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorate/quorate/client"
)

// DeadLetterQueue keeps what a worker cannot do, with the worker's word for why.
func DeadLetterQueue(ctx context.Context, c *client.Client, say Say) error {
	const n = 100
	dead := client.Queue{Name: "mail.dead"}
	mail := client.Queue{Name: "mail", Arguments: client.Table{
		"x-dead-letter-exchange":    "", // the default exchange: the key is the queue's name
		"x-dead-letter-routing-key": "mail.dead",
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	}}
	if err := declare(ctx, c, dead, mail); err != nil {
		return err
	}
	if err := publish(ctx, c, numbered("mail", n)...); err != nil {
		return err
	}

	stop, err := work(ctx, c, "mail", func(d *client.Delivery) error {
		return d.Decide(client.Decision{
			Kind: client.Discard, Annotations: client.Table{"x-error": "no such mailbox"},
		})
	})
	if err != nil {
		return err
	}
	err = collect(ctx, c, "mail.dead", n, func(_ int, d *client.Delivery) error {
		death := d.Deaths[0]
		if death.Queue != "mail" || death.Reason != "rejected" || death.Count != 1 || d.Annotations["x-error"] != "no such mailbox" {
			return fmt.Errorf("message %s has deaths %+v and annotations %v", d.Body, d.Deaths, d.Annotations)
		}
		return nil
	})
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	say("%d messages were rejected, each came to mail.dead once, with its death and the worker's error", n)
	return emptied(ctx, c, "mail")
}
