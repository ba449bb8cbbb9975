// Package recipes has the recipes of docs/dead-lettering.md as programs: each makes its queues,
// sends messages through them as real clients do, and checks that every message arrived once,
// where and when it should. The guide shows parts of this very code, and a test compares.
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

// Recipe is one of the guide's. Recipes may run at the same time, on one cluster; two runs of
// the same recipe may not.
type Recipe struct {
	Name  string // a word
	Title string
	// Run makes the queues, or finds them, empties them, and shows the recipe. An error tells
	// which message is not where it should be.
	Run func(ctx context.Context, c *client.Client, say Say) error
}

// Say takes a line that tells what has happened.
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

// declare makes queues and takes off what an earlier run may have left.
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

// publish publishes messages and waits until a majority has each.
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

// numbered returns messages for a queue whose bodies are 0 to n-1.
func numbered(queue string, n int) []client.Message {
	ms := make([]client.Message, n)
	for i := range ms {
		ms[i] = client.Message{RoutingKey: queue, Body: []byte(strconv.Itoa(i))}
	}
	return ms
}

// ledger counts how often each of some numbered messages has come.
type ledger struct {
	mu    sync.Mutex
	times []int
	left  int
	err   error // the first thing that must not be
}

func newLedger(n int) *ledger { return &ledger{times: make([]int, n), left: n} }

// take notes that a message has come and returns its number. That a message which was
// delivered before comes again to the same consumers, who were cut off meanwhile, is no fault:
// fresh is false then.
func (l *ledger) take(d *client.Delivery) (i int, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, err := strconv.Atoi(string(d.Body))
	switch {
	case err != nil || i < 0 || i >= len(l.times):
		l.fail(fmt.Errorf("message %q is none of these", d.Body))
	case l.times[i] == 0:
		l.times[i]++
		l.left--
		return i, true
	case !d.Redelivered:
		l.times[i]++
		l.fail(fmt.Errorf("message %d has come %d times", i, l.times[i]))
	}
	return i, false
}

// fail keeps the first error. The caller holds mu.
func (l *ledger) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// check notes an error, if it is one.
func (l *ledger) check(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.fail(err)
	}
}

// all reports whether every message has come.
func (l *ledger) all() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left > 0 {
		return false, l.err
	}
	return true, l.err
}

// work consumes a queue until stop, which returns what went wrong. handle decides about each
// message; what it leaves is acked.
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

// collect consumes a queue until n numbered messages have come out of it and nothing is left;
// see looks at each.
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
	err = eventually(ctx, "all messages have come out of "+queue, func() (bool, error) {
		if all, err := l.all(); !all || err != nil {
			return false, err
		}
		return empty(ctx, c, queue)
	})
	return errors.Join(err, stop())
}

// empty reports whether queues hold nothing, not even for somebody.
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
	return eventually(ctx, "nothing is left", func() (bool, error) { return empty(ctx, c, queues...) })
}

// pollEvery is how often a condition is looked at.
const pollEvery = 10 * time.Millisecond

// eventually waits until a condition holds, or an error comes of it.
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

// rounding is what cutting times to whole milliseconds takes from a delay.
const rounding = 2 * time.Millisecond

// lateness gathers how late messages are; one that is early is an error.
type lateness struct {
	mu  sync.Mutex
	all []time.Duration
}

// add notes how late a message came. One that came early, by more than rounding, is an error: a
// delay may run over, never under.
func (l *lateness) add(message int, due time.Time) error {
	late := time.Since(due)
	if late < -rounding {
		return fmt.Errorf("message %d came %v early", message, -late)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, max(late, 0))
	return nil
}

// String tells how late messages were.
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
