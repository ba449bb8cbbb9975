package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
)

// work is a number of messages, and the time and processor time that they took.
type work struct {
	messages  int64
	time, cpu time.Duration
}

func (w *work) add(other work) {
	w.messages, w.time, w.cpu = w.messages+other.messages, w.time+other.time, w.cpu+other.cpu
}

func (w work) rate() float64 { return float64(w.messages) / w.time.Seconds() }

// million returns the processor time for a million messages, in seconds.
func (w work) million() float64 { return w.cpu.Seconds() * 1e6 / float64(w.messages) }

// timed runs do and measures its time and the nodes' processor time.
func (w *deadWorld) timed(do func() (int64, error)) (out work, err error) {
	before, err := cpu(w.cluster)
	if err != nil {
		return out, err
	}
	begin := time.Now()
	if out.messages, err = do(); err != nil {
		return out, err
	}
	out.time = time.Since(begin)
	after, err := cpu(w.cluster)
	if out.cpu = after - before; err == nil && out.messages == 0 {
		err = errors.New("no message was processed")
	}
	return out, err
}

// fill publishes to the source through every node until all is confirmed.
func (w *deadWorld) fill(ctx context.Context, l load) (work, error) {
	l.queue, l.inFlight = sourceQueue, w.o.inFlight
	return w.timed(func() (int64, error) {
		var publishers sync.WaitGroup
		var total atomic.Int64
		errs := make([]error, len(w.clients))
		confirms := newRecorder()
		for i, c := range w.clients {
			mine := l
			if l.limit > 0 {
				mine.limit = (l.limit + int64(i)) / int64(len(w.clients))
			}
			publishers.Go(func() {
				n, err := publish(ctx, c, mine, confirms)
				total.Add(n)
				errs[i] = err
			})
		}
		publishers.Wait()
		return total.Load(), errors.Join(errs...)
	})
}

// expire makes all n messages of the source expire at once, so that no client takes part, and waits
// until they have arrived.
func (w *deadWorld) expire(ctx context.Context, n int64) (work, error) {
	out, err := w.timed(func() (int64, error) {
		if err := w.setTTL(ctx, true); err != nil {
			return 0, err
		}
		return n, w.arrived(ctx, n)
	})
	return out, errors.Join(err, w.setTTL(ctx, false))
}

// reject makes consumers on every node reject all n messages, and waits until they have arrived.
func (w *deadWorld) reject(ctx context.Context, n int64) (work, error) {
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	var consumers sync.WaitGroup
	errs := make([]error, len(w.clients))
	out, err := w.timed(func() (int64, error) {
		for i, c := range w.clients {
			consumers.Go(func() { errs[i] = rejectAll(ctx, consuming, c) })
		}
		err := w.arrived(ctx, n)
		return n, err
	})
	stop()
	consumers.Wait()
	return out, errors.Join(append(errs, err)...)
}

// rejectAll rejects messages until consuming ends.
func rejectAll(ctx, consuming context.Context, c *client.Client) error {
	s, err := c.Consume(ctx, client.ConsumeConfig{Queue: sourceQueue, Prefetch: prefetch})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		d, err := s.Receive(consuming)
		if err == nil {
			err = d.Discard()
		}
		if err != nil {
			if consuming.Err() != nil && ctx.Err() == nil {
				return nil
			}
			return err
		}
	}
}

// moveRows measures the rate of publishes to the source, and the rate at which the messages then
// move to the target.
func moveRows(ctx context.Context, w *deadWorld) ([]engineRow, error) {
	var rows []engineRow
	rounds := moveRounds
	if w.o.quick {
		rounds = 1
	}
	for _, size := range []int{12, 1024} {
		var published, expired, rejected work
		for range rounds {
			for _, trigger := range []struct {
				do  func(context.Context, int64) (work, error)
				sum *work
			}{{w.expire, &expired}, {w.reject, &rejected}} {
				p, err := w.fill(ctx, load{size: size, during: w.o.time})
				if err != nil {
					return rows, err
				}
				m, err := trigger.do(ctx, p.messages)
				if err != nil {
					return rows, err
				}
				published.add(p)
				trigger.sum.add(m)
				if _, err := w.admin.PurgeQueue(ctx, client.QueueRef{Name: targetQueue}); err != nil {
					return rows, err
				}
			}
		}
		rows = append(rows, movedRows(fmt.Sprintf("%d B, ", size), published, expired, rejected)...)
	}
	return rows, nil
}

const (
	perSecond  = "messages/s"
	perMillion = "s/million messages"
)

// movedRows compares dead letters with publishes.
func movedRows(label string, published, expired, rejected work) []engineRow {
	return []engineRow{
		goal{}.row(label+"published, confirmed", perSecond, published.rate()),
		goal{}.row(label+"published: CPU of three nodes", perMillion, published.million()),
		goal{}.row(label+"expired, all in the target", perSecond, expired.rate()),
		atLeast(0.5).row(label+"expired ÷ published, messages/s", "×", expired.rate()/published.rate()),
		atMost(3).row(label+"expired ÷ published, CPU of three nodes for a message", "×", expired.million()/published.million()),
		goal{}.row(label+"rejected by consumers, all in the target", perSecond, rejected.rate()),
		atLeast(0.5).row(label+"rejected ÷ published, messages/s", "×", rejected.rate()/published.rate()),
		atMost(3).row(label+"rejected ÷ published, CPU of three nodes for a message", "×", rejected.million()/published.million()),
	}
}
