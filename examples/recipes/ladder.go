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

// Ladder retries what a worker rejects after longer and longer waits, and parks it in the end.
// The broker climbs the ladder: the worker only discards.
func Ladder(ctx context.Context, c *client.Client, say Say) error {
	const n, poison = 60, 20 // the first 20 never succeed, the others at the third try
	rungs := []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}
	if err := buildLadder(ctx, c, rungs); err != nil {
		return err
	}
	if err := publish(ctx, c, numbered("calls", n)...); err != nil {
		return err
	}

	w := &ladderWorker{rungs: rungs, poison: poison, rejected: make([]time.Time, n), done: newLedger(n), late: &lateness{}}
	w.done.left = n - poison
	stop, err := work(ctx, c, "calls", w.handle)
	if err != nil {
		return err
	}
	err = collect(ctx, c, "calls.parked", poison, func(_ int, d *client.Delivery) error {
		if tries(d) != len(rungs)+1 {
			return fmt.Errorf("message %s is parked after %d tries", d.Body, tries(d))
		}
		return nil
	})
	if err == nil {
		err = eventually(ctx, "the others are done", w.done.all)
	}
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	say("%d messages were done once, at the third try; %d were parked once, after %d tries", n-poison, poison, len(rungs)+1)
	say("retries after %v, %v", rungs, w.late)
	return emptied(ctx, c, "calls", "calls.wait.1", "calls.wait.2", "calls.wait.3")
}

// buildLadder makes the queues: what calls rejects goes to the rung for as often as it died.
// Each round is two deaths, one in calls and one on a rung.
func buildLadder(ctx context.Context, c *client.Client, rungs []time.Duration) error {
	_, err := c.DeclareExchange(ctx, client.Exchange{Name: "calls.failed", Type: "headers"})
	if err != nil {
		return err
	}
	queues := []client.Queue{{Name: "calls.parked"}, {Name: "calls", Arguments: client.Table{
		"x-dead-letter-exchange": "calls.failed",
		"x-dead-letter-strategy": "at-least-once",
		"x-overflow":             "reject-publish",
	}}}
	for i, wait := range rungs {
		queues = append(queues, client.Queue{Name: "calls.wait." + strconv.Itoa(i+1), Arguments: client.Table{
			"x-message-ttl":             wait.Milliseconds(),
			"x-dead-letter-exchange":    "",
			"x-dead-letter-routing-key": "calls",
			"x-dead-letter-strategy":    "at-least-once",
			"x-overflow":                "reject-publish",
		}})
	}
	if err := declare(ctx, c, queues...); err != nil {
		return err
	}
	for i := range len(rungs) + 1 {
		to := "calls.parked"
		if i < len(rungs) {
			to = "calls.wait." + strconv.Itoa(i+1)
		}
		err := c.Bind(ctx, client.Binding{Source: "calls.failed", Destination: to, Arguments: client.Table{
			"x-match": "all-with-x", "x-death-count": 2*i + 1,
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// tries returns how often a worker rejected a message.
func tries(d *client.Delivery) (n int) {
	for _, death := range d.Deaths {
		if death.Reason == "rejected" {
			n += int(death.Count)
		}
	}
	return n
}

// ladderWorker rejects poison messages always, and every other message twice.
type ladderWorker struct {
	rungs  []time.Duration
	poison int
	done   *ledger
	late   *lateness

	mu       sync.Mutex
	rejected []time.Time
}

// handle rejects messages that have to climb the ladder, and checks how late each rung released a
// message.
func (w *ladderWorker) handle(d *client.Delivery) error {
	i, err := strconv.Atoi(string(d.Body))
	if err != nil {
		return err
	}
	n := tries(d)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 && !d.Redelivered {
		w.done.check(w.late.add(i, w.rejected[i].Add(w.rungs[n-1])))
	}
	if i < w.poison || n < 2 {
		w.rejected[i] = time.Now()
		return d.Discard()
	}
	w.done.take(d)
	return d.Ack()
}
