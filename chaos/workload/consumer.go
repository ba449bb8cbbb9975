package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/client"
)

// Consumer consumes one queue over gRPC and records what it sees. Its stream is opened again,
// by the client, when its node is gone.
type Consumer struct {
	Client   *client.Client
	History  *history.History
	Class    string // of the client; see history.Event
	VHost    string // "": "/"
	Queue    string
	Prefetch uint32
	// Decide chooses the outcome of a delivery; nil: all are acked.
	Decide func(m history.Message, d *client.Delivery) history.Outcome
	// See, if set, looks at every delivery before it is settled.
	See func(*client.Delivery) error

	name string
}

const (
	flushEvery = 500 // settlements between two waits for their commit
	idleFlush  = 100 * time.Millisecond
)

// Run consumes until ctx ends.
func (c *Consumer) Run(ctx context.Context) error {
	s, err := c.Client.Consume(ctx, client.ConsumeConfig{VHost: c.VHost, Queue: c.Queue, Prefetch: c.Prefetch})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer s.Close()
	c.name = c.History.Consumer()
	c.History.Add(history.Event{Kind: history.Opened, Queue: c.Queue, Consumer: c.name, Client: c.Class})
	var decided []history.Event // committed with the next flush
	for ctx.Err() == nil {
		waiting, cancel := context.WithTimeout(ctx, idleFlush)
		d, err := s.Receive(waiting)
		idle := err != nil && waiting.Err() != nil
		cancel()
		if err != nil && !idle {
			return fmt.Errorf("workload: consumer of %q: %w", c.Queue, err)
		}
		if err == nil {
			e, err := c.settle(d)
			if err != nil {
				return err
			}
			if e.Kind != "" {
				decided = append(decided, e)
			}
		}
		if len(decided) >= flushEvery || (idle && len(decided) > 0) {
			// Without a commit the messages come again, and are settled again.
			if s.Flush(context.WithoutCancel(ctx)) == nil {
				c.History.Add(decided...)
			}
			decided = decided[:0]
		}
	}
	return nil
}

// settle handles one delivery and returns what its commit will mean.
func (c *Consumer) settle(d *client.Delivery) (history.Event, error) {
	m, err := DecodeID(d.Body)
	if err != nil {
		return history.Event{}, err
	}
	e := history.Event{
		Kind: history.Delivered, Client: c.Class, Publisher: m.Publisher, ID: m.ID, Queue: c.Queue, Consumer: c.name,
		Acquired: d.AcquiredCount, Count: d.DeliveryCount, Again: d.Redelivered, Deaths: deaths(d.Deaths),
	}
	c.History.Add(e)
	if c.See != nil {
		if err := c.See(d); err != nil {
			return history.Event{}, err
		}
	}
	e = history.Event{Kind: history.Deciding, Publisher: m.Publisher, ID: m.ID, Queue: c.Queue, Consumer: c.name, Outcome: history.Ack}
	if c.Decide != nil {
		e.Outcome = c.Decide(m, d)
	}
	c.History.Add(e)
	switch e.Outcome {
	case history.Ack:
		err = d.Ack()
	case history.Discard:
		err = d.Discard()
	case history.Requeue:
		err = d.Requeue(true)
	case history.Return:
		err = d.Requeue(false)
	}
	if errors.Is(err, client.ErrStale) {
		return history.Event{}, nil // it comes again
	}
	e.Kind = history.Decided
	return e, err
}

// deaths returns what a history keeps of deaths.
func deaths(of []client.Death) []history.Death {
	if len(of) == 0 {
		return nil
	}
	out := make([]history.Death, len(of))
	for i, d := range of {
		out[i] = history.Death{Queue: d.Queue, Reason: d.Reason, Count: d.Count}
	}
	return out
}
