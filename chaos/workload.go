package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
)

// Publisher publishes numbered messages and records their fate.
type Publisher struct {
	Client  *client.Client
	History *History
	Number  int    // of the publisher
	Queue   string // as the broker knows it
	Size    int    // bytes of a body; at least idBytes
	Rate    int    // messages per second; 0: as fast as they are taken
	Count   uint64 // 0: until ctx ends
	// Progress, if set, is told about every answer.
	Progress func()

	unanswered sync.WaitGroup
	confirmed  atomic.Uint64
}

// idBytes is the size of a message's name in its body.
const idBytes = 12

// EncodeID appends a message's name to its body.
func encodeID(m Message, size int) []byte {
	b := make([]byte, max(size, idBytes))
	binary.BigEndian.PutUint32(b, uint32(m.Publisher))
	binary.BigEndian.PutUint64(b[4:], m.ID)
	return b
}

// DecodeID returns the name of a message that a Publisher made.
func DecodeID(body []byte) (Message, error) {
	if len(body) < idBytes {
		return Message{}, fmt.Errorf("chaos: body of %d bytes is too short for a message's name of %d", len(body), idBytes)
	}
	return Message{int(binary.BigEndian.Uint32(body)), binary.BigEndian.Uint64(body[4:])}, nil
}

// Confirmed returns how many messages are confirmed so far.
func (p *Publisher) Confirmed() uint64 { return p.confirmed.Load() }

// Run publishes until ctx ends or Count is reached, then waits for answers, at most for
// settle.
func (p *Publisher) Run(ctx context.Context, settle time.Duration) error {
	pub, err := p.Client.Publisher(client.PublisherConfig{})
	if err != nil {
		return err
	}
	begin := time.Now()
	for id := uint64(1); (p.Count == 0 || id <= p.Count) && ctx.Err() == nil; id++ {
		if p.Rate > 0 && !sleep(ctx, time.Duration(id)*time.Second/time.Duration(p.Rate)-time.Since(begin)) {
			break
		}
		sent := p.History.Now()
		p.History.Add(Event{Kind: Published, Publisher: p.Number, ID: id})
		p.unanswered.Add(1)
		m := client.Message{RoutingKey: p.Queue, Body: encodeID(Message{p.Number, id}, p.Size), Properties: client.Properties{DeliveryMode: 2}}
		err := pub.PublishAsync(ctx, m, func(_ client.Result, err error) { p.answered(id, sent, err) })
		if err != nil {
			p.answered(id, sent, err)
			if ctx.Err() == nil {
				return errors.Join(err, pub.Close(ctx))
			}
		}
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settle)
	defer cancel()
	err = pub.Close(closing)
	p.unanswered.Wait()
	return err
}

// answered records one answer.
func (p *Publisher) answered(id uint64, sent time.Duration, err error) {
	defer p.unanswered.Done()
	e := Event{Kind: Confirmed, Publisher: p.Number, ID: id, Sent: sent}
	var not *client.NotConfirmedError
	var invalid *client.Error
	switch {
	case err == nil:
		p.confirmed.Add(1)
	case errors.As(err, &not):
		e.Kind, e.Note = Refused, err.Error()
		for _, r := range not.Result.Rejections {
			if r.Cause == "unknown" {
				e.Kind = Unknown
			}
		}
	case errors.As(err, &invalid):
		e.Kind, e.Note = Refused, err.Error()
	default:
		e.Kind, e.Note = Unknown, err.Error()
	}
	p.History.Add(e)
	if p.Progress != nil {
		p.Progress()
	}
}

// Consumer consumes one queue and records what it sees.
type Consumer struct {
	Client   *client.Client
	History  *History
	Queue    string // as the broker knows it
	As       string // MainQueue or DeadQueue
	Prefetch uint32
	// Discard says which messages are discarded instead of acked; nil: none.
	Discard func(Message) bool
	// See, if set, looks at every delivery before it is decided about.
	See func(*client.Delivery) error
}

const (
	flushEvery = 500 // decisions between two waits for their commit
	idleFlush  = 100 * time.Millisecond
)

// Run consumes until ctx ends.
func (c *Consumer) Run(ctx context.Context) error {
	s, err := c.Client.Consume(ctx, client.ConsumeConfig{Queue: c.Queue, Prefetch: c.Prefetch})
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer s.Close()
	var decided []Event // committed with the next flush
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, idleFlush)
		d, err := s.Receive(wait)
		idle := err != nil && wait.Err() != nil
		cancel()
		if err != nil && !idle {
			return fmt.Errorf("chaos: consumer of %q: %w", c.Queue, err)
		}
		if err == nil {
			e, err := c.decide(d)
			if err != nil {
				return err
			}
			if e.Kind != "" {
				decided = append(decided, e)
			}
		}
		if len(decided) >= flushEvery || (idle && len(decided) > 0) {
			// Without a commit the messages come again, and are decided about again.
			if s.Flush(context.WithoutCancel(ctx)) == nil {
				c.History.Add(decided...)
			}
			decided = decided[:0]
		}
	}
	return nil
}

// decide handles one delivery and returns what its commit will mean.
func (c *Consumer) decide(d *client.Delivery) (Event, error) {
	m, err := DecodeID(d.Body)
	if err != nil {
		return Event{}, err
	}
	e := Event{Kind: Delivered, Publisher: m.Publisher, ID: m.ID, Queue: c.As, Acquired: d.AcquiredCount}
	c.History.Add(e)
	if c.See != nil {
		if err := c.See(d); err != nil {
			return Event{}, err
		}
	}
	decide := d.Ack
	e.Kind, e.Acquired = Acked, 0
	if c.As == DeadQueue {
		e.Kind = ""
	}
	if c.Discard != nil && c.Discard(m) {
		c.History.Add(Event{Kind: Discarded, Publisher: m.Publisher, ID: m.ID, Queue: c.As})
		decide, e.Kind = d.Discard, Buried
	}
	if err := decide(); errors.Is(err, client.ErrStale) {
		return Event{}, nil // it comes again
	} else if err != nil {
		return Event{}, err
	}
	return e, nil
}
