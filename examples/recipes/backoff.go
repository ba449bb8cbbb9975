package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/client"
)

// BackOff retries what fails after longer and longer waits in the queue itself, and parks what
// fails too often.
func BackOff(ctx context.Context, c *client.Client, say Say) error {
	const n = 40
	waits := []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}
	jobs := client.Queue{Name: "jobs", Arguments: client.Table{
		"x-delayed-retry-type":      "failed",
		"x-delayed-retry-backoff":   "200ms,400ms,800ms",
		"x-delivery-limit":          3, // failures that are forgiven
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": "jobs.parked",
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	}}
	if err := declare(ctx, c, client.Queue{Name: "jobs.parked"}, jobs); err != nil {
		return err
	}
	if err := publish(ctx, c, numbered("jobs", n)...); err != nil {
		return err
	}

	var mu sync.Mutex
	failed, late, faults := make([]time.Time, n), &lateness{}, newLedger(n)
	stop, err := work(ctx, c, "jobs", func(d *client.Delivery) error {
		i, err := strconv.Atoi(string(d.Body))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if tries := int(d.DeliveryCount); tries > 0 && tries <= len(waits) {
			faults.check(late.add(i, failed[i].Add(waits[tries-1])))
		}
		failed[i] = time.Now()
		return d.Requeue(true) // failed: try again later
	})
	if err != nil {
		return err
	}
	err = collect(ctx, c, "jobs.parked", n, func(_ int, d *client.Delivery) error {
		if death := d.Deaths[0]; death.Reason != "delivery_limit" || death.DeliveryCount != 4 {
			return fmt.Errorf("message %s has deaths %+v, want delivery_limit after 4 failures", d.Body, d.Deaths)
		}
		return nil
	})
	if err := errors.Join(err, stop(), faults.err); err != nil {
		return err
	}
	say("%d messages failed 4 times each and were parked once; retries after %v, %v", n, waits, late)
	return emptied(ctx, c, "jobs")
}
