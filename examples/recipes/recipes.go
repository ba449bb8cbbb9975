// Package recipes has the recipes of docs/dead-lettering.md as programs. Each declares its queues,
// sends messages through them as real clients do, and checks that every message arrived once, at
// the right place and time. The guide shows parts of this code, and a test compares them.
//
// Run them against a cluster of yours: go run ./examples/recipes/run.
package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/client"
)

// Recipe is one of the guide's recipes. Recipes may run at the same time on one cluster; two runs
// of the same recipe may not.
type Recipe struct {
	Name  string // a word
	Title string
	// Run declares the queues, or finds and empties them, and runs the recipe. An error names the
	// message that is in the wrong place.
	Run func(ctx context.Context, c *client.Client, say Say) error
}

// Say prints a line about the outcome.
type Say func(format string, args ...any)

// All returns the recipes in the order of the guide.
func All() []Recipe {
	return []Recipe{
		{"dead", "A dead-letter queue", DeadLetterQueue},
		{"delay", "A delay queue: one delay for all", DelayQueue},
		{"delays", "A delay queue: each message its own", MixedDelays},
		{"ladder", "A ladder of retries, then a parking lot", Ladder},
		{"backoff", "Retries with back-off, without further queues", BackOff},
		{"later", "Publish now, deliver later", Later},
		{"redrive", "Redrive", Redrive},
		{"pipeline", "A step of a pipeline, exactly once", Pipeline},
	}
}

// declare declares queues and removes messages that an earlier run may have left.
func declare(ctx context.Context, c *client.Client, queues ...client.Queue) error {
	for _, q := range queues {
		if _, err := c.DeclareQueue(ctx, q); err != nil {
			return err
		}
		if _, err := c.PurgeQueue(ctx, client.QueueRef{Name: q.Name}); err != nil {
			return err
		}
	}
	return nil
}

// publish publishes messages and waits until a majority of replicas has each of them.
func publish(ctx context.Context, c *client.Client, messages ...client.Message) error {
	p, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		return err
	}
	errs := make(chan error, len(messages))
	for i := range messages {
		if err := p.PublishAsync(ctx, messages[i], func(_ client.Result, err error) { errs <- err }); err != nil {
			return err
		}
	}
	if err := p.Close(ctx); err != nil {
		return err
	}
	for range messages {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// numbered returns messages for a queue with the bodies 0 to n-1.
func numbered(queue string, n int) []client.Message {
	ms := make([]client.Message, n)
	for i := range ms {
		ms[i] = client.Message{RoutingKey: queue, Body: []byte(strconv.Itoa(i))}
	}
	return ms
}

// ledger counts how often each of the numbered messages arrived.
type ledger struct {
	mu    sync.Mutex
	times []int
	left  int
	err   error // the first violation
}

func newLedger(n int) *ledger { return &ledger{times: make([]int, n), left: n} }

// take records that a message arrived and returns its number. fresh is false for a redelivered
// message that was delivered before; that is no fault, because the consumers may have been cut off
// meanwhile.
func (l *ledger) take(d *client.Delivery) (i int, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, err := strconv.Atoi(string(d.Body))
	switch {
	case err != nil || i < 0 || i >= len(l.times):
		l.fail(fmt.Errorf("message %q is not one of the expected messages", d.Body))
	case l.times[i] == 0:
		l.times[i]++
		l.left--
		return i, true
	case !d.Redelivered:
		l.times[i]++
		l.fail(fmt.Errorf("message %d arrived %d times", i, l.times[i]))
	}
	return i, false
}

// fail keeps the first error. The caller holds mu.
func (l *ledger) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// check records an error; nil changes nothing.
func (l *ledger) check(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.fail(err)
	}
}

// all reports whether every message arrived.
func (l *ledger) all() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left > 0 {
		return false, l.err
	}
	return true, l.err
}

// work consumes a queue until the caller calls stop, which returns the first error. handle decides
// about each message; work acks those that handle leaves open.
func work(ctx context.Context, c *client.Client, queue string, handle func(*client.Delivery) error) (stop func() error, err error) {
	working, cancel := context.WithCancel(ctx)
	s, err := c.Consume(working, client.ConsumeConfig{Queue: queue, Prefetch: 100})
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(working, func(_ context.Context, d *client.Delivery) error { return handle(d) })
	}()
	return func() error {
		cancel()
		defer s.Close()
		return <-ended
	}, nil
}

// collect consumes a queue until n numbered messages have arrived from it and it is empty; see
// checks each message.
func collect(ctx context.Context, c *client.Client, queue string, n int, see func(i int, d *client.Delivery) error) error {
	l := newLedger(n)
	stop, err := work(ctx, c, queue, func(d *client.Delivery) error {
		if i, fresh := l.take(d); fresh {
			l.check(see(i, d))
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = eventually(ctx, "all messages have left "+queue, func() (bool, error) {
		if all, err := l.all(); !all || err != nil {
			return false, err
		}
		return empty(ctx, c, queue)
	})
	return errors.Join(err, stop())
}

// empty reports whether queues have no messages, not even unacked ones.
func empty(ctx context.Context, c *client.Client, queues ...string) (bool, error) {
	for _, name := range queues {
		q, err := c.GetQueue(ctx, client.QueueRef{Name: name})
		if err != nil {
			return false, err
		}
		if s := q.Stats; s == nil || s.Messages > 0 {
			return false, nil
		}
	}
	return true, nil
}

// emptied waits until queues are empty.
func emptied(ctx context.Context, c *client.Client, queues ...string) error {
	return eventually(ctx, "the queues are empty", func() (bool, error) { return empty(ctx, c, queues...) })
}

// pollEvery is how often a condition is checked.
const pollEvery = 10 * time.Millisecond

// eventually waits until a condition holds or fails with an error.
func eventually(ctx context.Context, what string, holds func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not in time: %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// rounding is the most that a delay loses when times are cut to whole milliseconds.
const rounding = 2 * time.Millisecond

// lateness collects how late messages arrive; an early message is an error.
type lateness struct {
	mu  sync.Mutex
	all []time.Duration
}

// add records how late a message arrived. A message that is early by more than rounding is an
// error: a delay may be too long, never too short.
func (l *lateness) add(message int, due time.Time) error {
	late := time.Since(due)
	if late < -rounding {
		return fmt.Errorf("message %d arrived %v early", message, -late)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, max(late, 0))
	return nil
}

// String returns the quantiles of the lateness.
func (l *lateness) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return "none"
	}
	slices.Sort(l.all)
	at := func(percent int) time.Duration { return l.all[(len(l.all)-1)*percent/100].Round(time.Millisecond) }
	return fmt.Sprintf("late by %v p50, %v p99, %v at most", at(50), at(99), at(100))
}
